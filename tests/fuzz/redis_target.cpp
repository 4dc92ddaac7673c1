#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>

#include "jobs/error.h"
#include "jobs/queue/artifact.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/queue/redis_queue.h"
#include "jobs/redis/redis_client.h"
#include "tests/fuzz/targets.h"

namespace foretime::fuzz {
namespace {

using jobs::Reply;

constexpr const char* kRedisFields[] = {
    "kind",      "name",      "sweep",          "trial",     "settings",   "parameters",  "deferred",     "metric",
    "goal",      "after",     "ranks",          "cpus",      "gpus",       "priority",    "max_attempts", "state",
    "attempt",   "failures",  "fence",          "agent",     "step",       "total_steps", "eta_s",        "loss",
    "seconds",   "objective", "best_objective", "metrics",   "checkpoint", "error",       "reason",       "stopped",
    "cancel",    "log_lines", "results",        "due_ms",    "method",     "definition",  "trials",       "seed",
    "rungs",     "eta",       "host",           "version",   "pid",        "seen_ms",     "started_ms",   "jobs",
    "submitted", "succeeded", "lost_leases",    "proposals", "paused",     "created_ms",  "failed_on"};
constexpr const char* kRedisValues[] = {"",
                                        "0",
                                        "1",
                                        "-1",
                                        "9223372036854775807",
                                        "99999999999999999999",
                                        "1e400",
                                        "nan",
                                        "inf",
                                        "0.5",
                                        "train",
                                        "evaluate",
                                        "export",
                                        "finetune",
                                        "waiting",
                                        "active",
                                        "succeeded",
                                        "failed",
                                        "dead",
                                        "running",
                                        "{}",
                                        "[]",
                                        "{\"a\": 1}",
                                        "{\"a\": \"b\"}",
                                        "[\"a\"]",
                                        "[1, 3]",
                                        "[[[[",
                                        "null",
                                        "minimize",
                                        "maximize",
                                        "ok",
                                        "refused",
                                        "none",
                                        "lost",
                                        "stop",
                                        "job",
                                        "lease",
                                        "noeviction",
                                        "maxmemory-policy",
                                        "NOSCRIPT no",
                                        "LOADING x",
                                        "MOVED 1 127.0.0.1:1",
                                        "READONLY no",
                                        "OOM no",
                                        "0123456789abcdef",
                                        "random",
                                        "grid"};

/// Answers as the bytes say, whatever it is asked.
class MadeUpRedis final : public jobs::RedisTransport {
 public:
  explicit MadeUpRedis(Choices& choices) : choices_(choices) {}
  void send(const std::vector<Arguments>& calls) override {
    constexpr size_t kMostCalls = 3000;
    asked_ += calls.size();
    if (asked_ > kMostCalls) throw jobs::RedisUnavailable("asked {} times", asked_);
  }
  Reply try_receive(const std::string& command) override { return choices_.flag() ? receive(command) : nullptr; }
  Reply receive(const std::string& command) override {
    if (command == "CONFIG") return texts({"maxmemory-policy", "noeviction"});
    if (choices_.done()) throw jobs::RedisUnavailable("{}: no more answers", command);
    return answer(0);
  }

 private:
  static Reply make(int type) {
    Reply reply(static_cast<redisReply*>(std::calloc(1, sizeof(redisReply))));
    reply->type = type;
    return reply;
  }
  static Reply text(int type, std::string_view value) {
    auto reply = make(type);
    reply->str = static_cast<char*>(std::malloc(value.size() + 1));
    std::memcpy(reply->str, value.data(), value.size());
    reply->str[value.size()] = '\0';
    reply->len = value.size();
    return reply;
  }
  static Reply array(std::vector<Reply> elements) {
    auto reply = make(REDIS_REPLY_ARRAY);
    reply->elements = elements.size();
    reply->element = static_cast<redisReply**>(std::calloc(elements.size() + 1, sizeof(redisReply*)));
    for (size_t i = 0; i < elements.size(); ++i) reply->element[i] = elements[i].release();
    return reply;
  }
  static Reply texts(const std::vector<std::string>& values) {
    std::vector<Reply> elements;
    for (const auto& value : values) elements.push_back(text(REDIS_REPLY_STRING, value));
    return array(std::move(elements));
  }

  std::string value() {
    return choices_.below(3) == 0 ? std::string(choices_.take(choices_.below(40))) : choices_.of(kRedisValues);
  }

  Reply answer(int depth) {
    switch (choices_.below(depth > 3 ? 5 : 9)) {
      case 0:
        return make(REDIS_REPLY_NIL);
      case 1: {
        auto reply = make(REDIS_REPLY_INTEGER);
        reply->integer = choices_.number();
        return reply;
      }
      case 2:
        return text(REDIS_REPLY_STATUS, value());
      case 3:
        return choices_.below(4) == 0 ? text(REDIS_REPLY_ERROR, value()) : text(REDIS_REPLY_STRING, value());
      case 4:
        return text(REDIS_REPLY_STRING, value());
      case 5: {  // a hash
        std::vector<std::string> pairs;
        for (size_t i = choices_.below(20); i > 0 && !choices_.done(); --i) {
          pairs.emplace_back(choices_.of(kRedisFields));
          pairs.push_back(value());
        }
        if (choices_.below(8) == 0) pairs.emplace_back("odd");
        return texts(pairs);
      }
      case 6: {  // ids, or ids and scores
        std::vector<std::string> ids;
        for (size_t i = choices_.below(8); i > 0; --i) ids.push_back(choices_.flag() ? "0123456789abcdef" : value());
        return texts(ids);
      }
      default: {
        std::vector<Reply> elements;
        for (size_t i = choices_.below(6); i > 0 && !choices_.done(); --i) elements.push_back(answer(depth + 1));
        return array(std::move(elements));
      }
    }
  }

  Choices& choices_;
  size_t asked_ = 0;
};

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
      case 0:
        ask([&] { to_prometheus(reader.statistics()); });
        break;
      case 1:
        ask([&] { reader.job(id); });
        break;
      case 2:
        ask([&] { reader.jobs({id, "b"}); });
        break;
      case 3:
        ask([&] { reader.ids_in(jobs::JobState::waiting, 10); });
        break;
      case 4:
        ask([&] { reader.ids_of_sweep(id); });
        break;
      case 5:
        ask([&] { reader.sweep(id); });
        break;
      case 6:
        ask([&] { reader.sweeps(5); });
        break;
      case 7:
        ask([&] {
          int64_t total = 0;
          reader.log(id, total);
        });
        break;
      case 8:
        ask([&] { reader.resolve_job("01"); });
        break;
      case 9:
        ask([&] { reader.is_sweep("01"); });
        break;
      case 10:
        ask([&] {
          if (const auto claimed = queue.claim({"agent", "token", 4, 1, jobs::Milliseconds(1000)}))
            require(!claimed->job.empty(), "a lease is of a job", "");
        });
        break;
      case 11:
        ask([&] { queue.renew(lease, jobs::Milliseconds(1000)); });
        break;
      case 12:
        ask([&] { queue.report(lease, {}); });
        break;
      case 13:
        ask([&] { queue.finish(lease, {}, 0.5); });
        break;
      case 14:
        ask([&] { queue.reap(); });
        break;
      case 15:
        ask([&] { queue.find(id); });
        break;
      case 16:
        ask([&] { queue.waiting(); });
        break;
      case 17:
        ask([&] {
          const auto found = queue.artifacts(id);
          for (const auto& [role, artifact] : found.by_role)
            require(jobs::is_artifact_path(artifact.path), "a stored path stays in its folder", artifact.path.c_str());
        });
        break;
      case 18:
        ask([&] { queue.forgotten_artifacts(); });
        break;
      case 19:
        ask([&] { queue.room_for(lease, artifact, {"last"}); });
        break;
      case 20:
        ask([&] { queue.keep(lease, artifact, {"last", "best"}, choices.flag()); });
        break;
      case 21:
        ask([&] { queue.finish_and_claim(lease, {}, 0.5, {"agent", "token", 4, 1, jobs::Milliseconds(1000)}); });
        break;
      case 22:
        ask([&] { queue.heartbeat_agent({"agent", "host", "1", 1, 1, 0, 0, false}); });
        break;
      case 23:
        ask([&] { queue.propose(lease, {{"model.hidden", "8"}}); });
        break;
      case 24:
        ask([&] { queue.cancel(id); });
        break;
      case 25:
        ask([&] { queue.cancel_sweep(id); });
        break;
      case 26:
        ask([&] { queue.agree_to_keep({}, choices.flag()); });
        break;
      case 27:
        ask([&] { queue.set_priority(id, 1); });
        break;
      case 28:
        ask([&] { queue.warning(); });
        break;
      case 29:
        ask([&] { reader.changes(id, 0); });
        break;
      case 30:
        ask([&] { queue.create_sweep({.id = id, .name = "sweep", .method = "grid"}); });
        break;
      default:
        ask([&] { queue.none_in({jobs::JobState::active, jobs::JobState::waiting}); });
    }
  }
}

}  // namespace foretime::fuzz
