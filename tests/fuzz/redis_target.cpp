#include <cstring>
#include <memory>
#include <string>

#include "jobs/error.h"
#include "jobs/queue/artifact.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/queue/redis_queue.h"
#include "jobs/redis/redis_client.h"
#include "tests/fuzz/made_up_redis.h"
#include "tests/fuzz/targets.h"

namespace foretime::fuzz {
namespace {

/// What a queue may say of whatever Redis answers.
template <class Call>
void ask(const Call& call) {
  try {
    call();
  } catch (const jobs::JobsError& error) {
    require(std::strlen(error.what()) > 0, "a failure has a message", "");
  }
}

}  // namespace

void run_redis(std::string_view bytes) {
  Choices choices(bytes);
  // The queue's scripts are hashed when it is made: once. Its client starts anew.
  static jobs::RedisClient client{jobs::RedisUrl{}};
  client = jobs::RedisClient(jobs::RedisUrl{});
  client.connect_by([&](const jobs::RedisUrl&) { return std::make_unique<MadeUpRedis>(choices); });
  static jobs::QueueReader reader(client, {});
  static jobs::RedisQueue queue(client, {});
  const std::string id = "0123456789abcdef";
  const jobs::Lease lease{.job = id, .agent = "agent", .fence = 1, .token = "token"};
  const jobs::Artifact artifact{
      .name = "1-t/step", .store = jobs::kRedisStore, .path = "a", .files = {{"a", {1, std::string(64, '0')}}}};
  constexpr int kMostCalls = 20;
  for (int i = 0; i < kMostCalls && !choices.done(); ++i) {
    switch (choices.below(32)) {
      case 0: ask([&] { to_prometheus(reader.statistics()); }); break;
      case 1: ask([&] { reader.job(id); }); break;
      case 2: ask([&] { reader.jobs({id, "b"}); }); break;
      case 3: ask([&] { reader.ids_in(jobs::JobState::waiting, 10); }); break;
      case 4: ask([&] { reader.ids_of_sweep(id); }); break;
      case 5: ask([&] { reader.sweep(id); }); break;
      case 6: ask([&] { reader.sweeps(5); }); break;
      case 7:
        ask([&] {
          int64_t total = 0;
          reader.log(id, total);
        });
        break;
      case 8: ask([&] { reader.resolve_job("01"); }); break;
      case 9: ask([&] { reader.is_sweep("01"); }); break;
      case 10:
        ask([&] {
          if (const auto claimed = queue.claim({"agent", "token", 4, 1, jobs::Milliseconds(1000)}))
            require(!claimed->job.empty(), "a lease is of a job", "");
        });
        break;
      case 11: ask([&] { queue.renew(lease, jobs::Milliseconds(1000)); }); break;
      case 12: ask([&] { queue.report(lease, {}); }); break;
      case 13: ask([&] { queue.finish(lease, {}, 0.5); }); break;
      case 14: ask([&] { queue.reap(); }); break;
      case 15: ask([&] { queue.find(id); }); break;
      case 16: ask([&] { queue.waiting(); }); break;
      case 17:
        ask([&] {
          const auto found = queue.artifacts(id);
          for (const auto& [role, artifact] : found.by_role)
            require(jobs::is_artifact_path(artifact.path), "a stored path stays in its folder", artifact.path.c_str());
        });
        break;
      case 18: ask([&] { queue.forgotten_artifacts(); }); break;
      case 19: ask([&] { queue.may_store(lease, artifact, {"last"}); }); break;
      case 20: ask([&] { queue.keep(lease, artifact, {"last", "best"}, choices.flag()); }); break;
      case 21:
        ask([&] { queue.finish_and_claim(lease, {}, 0.5, {"agent", "token", 4, 1, jobs::Milliseconds(1000)}); });
        break;
      case 22: ask([&] { queue.heartbeat_agent({"agent", "host", "1", 1, 1, 0, 0, false}); }); break;
      case 23: ask([&] { queue.propose(lease, {{"model.hidden", "8"}}); }); break;
      case 24: ask([&] { queue.cancel(id); }); break;
      case 25: ask([&] { queue.cancel_sweep(id); }); break;
      case 26: ask([&] { queue.agree_to_keep({}, choices.flag()); }); break;
      case 27: ask([&] { queue.set_priority(id, 1); }); break;
      case 28: ask([&] { queue.warning(); }); break;
      case 29: ask([&] { reader.changes(id, 0); }); break;
      case 30: ask([&] { queue.create_sweep({.id = id, .name = "sweep", .method = "grid"}); }); break;
      default: ask([&] { queue.none_in({jobs::JobState::active, jobs::JobState::waiting}); });
    }
  }
}

}  // namespace foretime::fuzz
