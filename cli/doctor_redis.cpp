#include "cli/doctor_redis.h"

#include <filesystem>

#include <fmt/format.h>

#include "jobs/error.h"

namespace foretime::cli {
namespace {

std::string text_or(const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; }

RedisFinding describe(jobs::RedisClient& client) {
  const auto health = jobs::examine(client);
  RedisFinding finding{fmt::format("{}: Redis {} ({}), appendonly {}, appendfsync {}, maxmemory-policy {}",
                                   client.url().redacted(), text_or(health.version, "of unknown version"),
                                   text_or(health.role, "role unknown"), text_or(health.appendonly, "unknown"),
                                   text_or(health.appendfsync, "unknown"), text_or(health.maxmemory_policy, "unknown")),
                       health.warnings};
  if (health.warnings.empty()) finding.advice.emplace_back("nothing that was submitted is lost when it is killed");
  return finding;
}

}  // namespace

RedisFinding look_at_redis(const QueueOptions& options) {
  const auto folder = std::filesystem::path(options.runs) / ".redis";
  bool found = false;
  try {
    auto url = jobs::RedisUrl::from_environment(options.redis, found);
    if (!found) {
      if (!std::filesystem::exists(folder / "redis.sock")) {
        return {fmt::format("no Redis is named, and none runs in {}", folder.string()),
                {"foretime submit and foretime agent start one there; for several machines set FORETIME_REDIS"}};
      }
      url.socket = std::filesystem::absolute(folder / "redis.sock").string();
    }
    jobs::RedisClient client(url);
    return describe(client);
  } catch (const jobs::JobsError& error) {
    if (found) return {"does not work", {error.what()}};
    return {fmt::format("the Redis of {} does not run now", folder.string()),
            {"foretime submit and foretime agent start it when they need it"}};
  }
}

}  // namespace foretime::cli
