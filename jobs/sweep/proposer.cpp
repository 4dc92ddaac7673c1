#include "jobs/sweep/proposer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "jobs/error.h"
#include "jobs/redis/redis_client.h"

namespace foretime::jobs {
namespace {

class RedisSource final : public TrialSource {
 public:
  RedisSource(RedisUrl url, QueueSettings settings) : client_(std::move(url)), reader_(client_, std::move(settings)) {}

  std::optional<SweepRecord> sweep(const std::string& id) override { return reader_.sweep(id); }
  std::vector<JobRecord> jobs_of(const std::string& sweep) override {
    return reader_.jobs(reader_.ids_of_sweep(sweep));
  }

 private:
  RedisClient client_;
  QueueReader reader_;
};

}  // namespace

std::vector<Observation> observations_of(const std::vector<JobRecord>& jobs, const std::string& except) {
  std::vector<const JobRecord*> trials;
  for (const JobRecord& job : jobs) {
    const bool decided =
        job.unreadable.empty() && job.spec.kind == JobKind::train && !job.spec.deferred && !job.spec.parameters.empty();
    if (decided && job.spec.id != except) trials.push_back(&job);
  }
  // The estimator's answer may depend on the order of equals; Redis' order must not matter.
  std::sort(trials.begin(), trials.end(), [](const JobRecord* a, const JobRecord* b) {
    return a->spec.trial != b->spec.trial ? a->spec.trial < b->spec.trial : a->spec.id < b->spec.id;
  });
  std::vector<Observation> seen;
  for (const JobRecord* trial : trials) {
    const std::optional<double> reached = trial->best_objective ? trial->best_objective : trial->objective;
    switch (trial->state) {
      case JobState::succeeded:
        seen.push_back({trial->spec.parameters, reached});
        break;
      case JobState::cancelled:
        if (reached) seen.push_back({trial->spec.parameters, reached});
        break;
      default:
        seen.push_back({trial->spec.parameters, std::nullopt});
    }
  }
  return seen;
}

Parameters decide_parameters(TrialSource& source, JobQueue& queue, const Lease& lease) {
  if (!lease.spec.deferred) return lease.spec.parameters;
  for (int attempt = 0; attempt < kProposalTries; ++attempt) {
    // The count of proposals is read before the trials: whoever proposes in between makes this attempt fail.
    const std::optional<SweepRecord> sweep = source.sweep(lease.spec.sweep);
    if (!sweep) {
      throw JobRefused("job {}: its sweep {} is unknown; its record has expired or was deleted", lease.job,
                       lease.spec.sweep);
    }
    const SearchSpace space = parse_search_space(sweep->spec.definition);
    const std::vector<Observation> seen = observations_of(source.jobs_of(lease.spec.sweep), lease.job);
    const Parameters parameters = propose_trial(space, seen, sweep->spec.maximize, sweep->spec.seed, lease.spec.trial);
    if (queue.propose(lease, parameters, sweep->proposals)) return parameters;

    const std::optional<JobRecord> now = queue.find(lease.job);
    if (!now || now->state != JobState::active || now->fence != lease.fence)
      throw JobRefused("job {}: the lease was lost before its parameters were decided", lease.job);
    if (!now->spec.deferred) return now->spec.parameters;  // fixed by an earlier holder, or an answer that was lost
  }
  throw JobsError("job {}: other agents decided theirs first, {} times in a row; it will be tried again", lease.job,
                  kProposalTries);
}

std::function<Parameters(JobQueue& queue, const Lease& lease)> redis_proposer(RedisUrl url, QueueSettings settings) {
  const auto source = std::make_shared<RedisSource>(std::move(url), std::move(settings));
  return [source](JobQueue& queue, const Lease& lease) { return decide_parameters(*source, queue, lease); };
}

}  // namespace foretime::jobs
