#include "jobs/sweep/proposer.h"

#include <algorithm>
#include <memory>

#include "jobs/error.h"
#include "jobs/redis/redis_client.h"

namespace foretime::jobs {
namespace {

class RedisSource final : public TrialSource {
 public:
  RedisSource(RedisUrl url, QueueSettings settings) : client_(std::move(url)), reader_(client_, std::move(settings)) {}

  std::optional<SweepRecord> sweep(const std::string& id) override { return reader_.sweep(id); }
  TrialChanges changes(const std::string& sweep, int64_t from) override { return reader_.changes(sweep, from); }
  std::vector<JobRecord> jobs(const std::vector<std::string>& ids) override { return reader_.trials(ids); }

  ParameterProposer proposer{*this};

 private:
  RedisClient client_;
  QueueReader reader_;
};

}  // namespace

std::optional<Observation> observation_of(const JobRecord& job) {
  const bool decided =
      job.unreadable.empty() && job.spec.kind == JobKind::train && !job.spec.deferred && !job.spec.parameters.empty();
  if (!decided) return std::nullopt;
  const std::optional<double> reached = job.best_objective ? job.best_objective : job.objective;
  if (job.state == JobState::succeeded) return Observation{job.spec.parameters, reached};
  if (job.state == JobState::cancelled)
    return reached ? std::optional(Observation{job.spec.parameters, reached}) : std::nullopt;
  return Observation{job.spec.parameters, std::nullopt};
}

void ParameterProposer::read_all_trials(const std::string& sweep, History& history, TrialChanges& changes) {
  history = {};
  const auto record = source_.sweep(sweep);
  if (!record) return;
  history.space = parse_search_space(record->spec.definition);
  history.sweep = *record;
  // The changes come before the trials: what changes in between is read twice.
  changes = source_.changes(sweep, 0);
}

ParameterProposer::History& ParameterProposer::refresh(const Lease& lease) {
  const auto& id = lease.spec.sweep;
  if (!histories_.contains(id) && histories_.size() >= kMostSweeps) {
    histories_.erase(std::min_element(histories_.begin(), histories_.end(), [](const auto& a, const auto& b) {
      return a.second.last_use < b.second.last_use;
    }));
  }
  auto& history = histories_[id];
  // The last change that was read must come again: Redis may have been reset, or the sweep submitted again.
  auto changes = source_.changes(id, std::max<int64_t>(0, history.read - 1));
  const bool goes_on = history.sweep.created_ms != 0 && changes.created_ms == history.sweep.created_ms &&
                       (history.read == 0 || (!changes.ids.empty() && changes.ids.front() == history.last_change));
  if (!goes_on) read_all_trials(id, history, changes);
  else if (history.read > 0) changes.ids.erase(changes.ids.begin());
  if (history.sweep.created_ms == 0) {
    histories_.erase(id);
    throw JobRefused("job {}: its sweep {} is unknown; its record has expired or was deleted", lease.job, id);
  }
  history.last_use = ++refreshes_;
  history.read += std::ssize(changes.ids);
  if (!changes.ids.empty()) history.last_change = changes.ids.back();
  auto ids = changes.ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  try {
    for (const JobRecord& job : source_.jobs(ids)) {
      if (auto observation = observation_of(job)) history.seen[{job.spec.trial, job.spec.id}] = std::move(*observation);
      else history.seen.erase({job.spec.trial, job.spec.id});
    }
  } catch (...) {
    histories_.erase(id);  // counted as read, and was not
    throw;
  }
  return history;
}

Parameters ParameterProposer::decide(JobQueue& queue, const Lease& lease) {
  if (!lease.spec.deferred) return lease.spec.parameters;
  const auto& history = refresh(lease);
  std::vector<const Observation*> seen;
  seen.reserve(history.seen.size());
  for (const auto& [trial, observation] : history.seen)
    if (trial.second != lease.job) seen.push_back(&observation);
  const auto& spec = history.sweep.spec;
  const Parameters parameters = propose_trial(history.space, seen, spec.maximize, spec.seed, lease.spec.trial);
  if (queue.propose(lease, parameters)) return parameters;

  const std::optional<JobRecord> now = queue.find(lease.job);
  if (!now || now->state != JobState::active || now->fence != lease.fence || now->spec.deferred)
    throw JobRefused("job {}: the lease was lost before its parameters were decided", lease.job);
  return now->spec.parameters;  // fixed by an earlier holder, or an answer that was lost
}

std::function<Parameters(JobQueue& queue, const Lease& lease)> redis_proposer(RedisUrl url, QueueSettings settings) {
  const auto source = std::make_shared<RedisSource>(std::move(url), std::move(settings));
  return [source](JobQueue& queue, const Lease& lease) { return source->proposer.decide(queue, lease); };
}

}  // namespace foretime::jobs
