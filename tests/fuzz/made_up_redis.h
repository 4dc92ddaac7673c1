#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hiredis/hiredis.h>

#include "jobs/error.h"
#include "jobs/redis/redis_client.h"
#include "tests/fuzz/targets.h"

namespace foretime::fuzz {

inline constexpr const char* kRedisFields[] = {
    "kind",      "name",      "sweep",          "trial",     "settings",   "parameters",  "deferred",     "metric",
    "goal",      "after",     "ranks",          "cpus",      "gpus",       "priority",    "max_attempts", "state",
    "attempt",   "failures",  "fence",          "agent",     "step",       "total_steps", "eta_s",        "loss",
    "seconds",   "objective", "best_objective", "metrics",   "checkpoint", "error",       "reason",       "stopped",
    "cancel",    "log_lines", "results",        "due_ms",    "method",     "definition",  "trials",       "seed",
    "rungs",     "eta",       "host",           "version",   "pid",        "seen_ms",     "started_ms",   "jobs",
    "submitted", "succeeded", "lost_leases",    "proposals", "paused",     "created_ms",  "failed_on"};
inline constexpr const char* kRedisValues[] = {"",
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
  jobs::Reply try_receive(const std::string& command) override { return choices_.flag() ? receive(command) : nullptr; }
  jobs::Reply receive(const std::string& command) override {
    if (command == "CONFIG") return texts({"maxmemory-policy", "noeviction"});
    if (choices_.done()) throw jobs::RedisUnavailable("{}: no more answers", command);
    return answer(0);
  }

 private:
  static jobs::Reply make(int type) {
    jobs::Reply reply(static_cast<redisReply*>(std::calloc(1, sizeof(redisReply))));
    reply->type = type;
    return reply;
  }
  static jobs::Reply text(int type, std::string_view value) {
    auto reply = make(type);
    reply->str = static_cast<char*>(std::malloc(value.size() + 1));
    std::memcpy(reply->str, value.data(), value.size());
    reply->str[value.size()] = '\0';
    reply->len = value.size();
    return reply;
  }
  static jobs::Reply array(std::vector<jobs::Reply> elements) {
    auto reply = make(REDIS_REPLY_ARRAY);
    reply->elements = elements.size();
    reply->element = static_cast<redisReply**>(std::calloc(elements.size() + 1, sizeof(redisReply*)));
    for (size_t i = 0; i < elements.size(); ++i) reply->element[i] = elements[i].release();
    return reply;
  }
  static jobs::Reply texts(const std::vector<std::string>& values) {
    std::vector<jobs::Reply> elements;
    for (const auto& value : values) elements.push_back(text(REDIS_REPLY_STRING, value));
    return array(std::move(elements));
  }

  std::string value() {
    return choices_.below(3) == 0 ? std::string(choices_.take(choices_.below(40))) : choices_.of(kRedisValues);
  }

  jobs::Reply answer(int depth) {
    switch (choices_.below(depth > 3 ? 5 : 9)) {
      case 0: return make(REDIS_REPLY_NIL);
      case 1: {
        auto reply = make(REDIS_REPLY_INTEGER);
        reply->integer = choices_.number();
        return reply;
      }
      case 2: return text(REDIS_REPLY_STATUS, value());
      case 3: return choices_.below(4) == 0 ? text(REDIS_REPLY_ERROR, value()) : text(REDIS_REPLY_STRING, value());
      case 4: return text(REDIS_REPLY_STRING, value());
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
        std::vector<jobs::Reply> elements;
        for (size_t i = choices_.below(6); i > 0 && !choices_.done(); --i) elements.push_back(answer(depth + 1));
        return array(std::move(elements));
      }
    }
  }

  Choices& choices_;
  size_t asked_ = 0;
};

}  // namespace foretime::fuzz
