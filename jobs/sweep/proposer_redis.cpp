#include <memory>
#include <utility>

#include "jobs/redis/redis_client.h"
#include "jobs/sweep/proposer.h"

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

std::function<Parameters(JobQueue& queue, const Lease& lease)> redis_proposer(RedisUrl url, QueueSettings settings) {
  const auto source = std::make_shared<RedisSource>(std::move(url), std::move(settings));
  return [source](JobQueue& queue, const Lease& lease) { return decide_parameters(*source, queue, lease); };
}

}  // namespace foretime::jobs
