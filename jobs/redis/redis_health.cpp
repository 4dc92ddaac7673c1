#include "jobs/redis/redis_health.h"

#include <string_view>

#include <fmt/format.h>

#include "base/numbers.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

/// Returns "" where the user may not ask, or this Redis does not know.
std::string setting(RedisClient& client, const std::string& name) {
  try {
    const auto pair = texts_of(*client.call({"CONFIG", "GET", name}));
    return pair.size() == 2 ? pair[1] : "";
  } catch (const RedisRefused&) {
    return "";
  }
}

std::string info(RedisClient& client, const std::string& section) {
  try {
    return text_of(*client.call({"INFO", section}));
  } catch (const RedisRefused&) {
    return "";
  }
}

}  // namespace

std::string memory_warning(RedisClient& client) {
  constexpr double kMuch = 0.8, kMiB = 1 << 20;
  const auto text = info(client, "memory");
  const auto bytes = [&](const char* field) { return parse_number<double>(info_field(text, field)).value_or(0); };
  const bool limited = bytes("maxmemory") > 0;
  const double used = bytes("used_memory"), most = bytes(limited ? "maxmemory" : "total_system_memory");
  if (most <= 0 || used < kMuch * most) return "";
  return fmt::format(
      "Redis uses {:.0f} of {:.0f} MiB of {} ({:.0f} %); when it is full, no jobs are taken: "
      "raise it, or keep fewer jobs that ended (foretime agent --keep-jobs, --keep-days)",
      used / kMiB, most / kMiB, limited ? "maxmemory" : "the machine's memory", 100 * used / most);
}

std::string eviction_warning(RedisClient& client) {
  const auto keys = info_field(info(client, "stats"), "evicted_keys");
  if (keys.empty() || keys == "0") return "";
  return fmt::format(
      "Redis has evicted {} keys since its start, so jobs may be missing; "
      "set maxmemory-policy noeviction, and submit them again",
      keys);
}

RedisHealth examine(RedisClient& client) {
  client.call({"PING"});  // fails here if there is no connection, rather than a missing right
  RedisHealth health;
  health.version = info_field(info(client, "server"), "redis_version");
  health.role = info_field(info(client, "replication"), "role");
  const auto persistence = info(client, "persistence");
  health.appendonly = setting(client, "appendonly");
  if (health.appendonly.empty()) {
    const auto enabled = info_field(persistence, "aof_enabled");
    if (!enabled.empty()) health.appendonly = enabled == "1" ? "yes" : "no";
  }
  health.appendfsync = setting(client, "appendfsync");
  health.maxmemory_policy = setting(client, "maxmemory-policy");
  if (health.maxmemory_policy.empty()) health.maxmemory_policy = info_field(info(client, "memory"), "maxmemory_policy");

  auto& warnings = health.warnings;
  std::string_view version = health.version;
  if (!version.empty() && take_number<int>(version).value_or(0) < kLeastRedis) {
    health.usable = false;
    warnings.push_back(fmt::format("version {}: Foretime needs Redis {}.0 or newer", health.version, kLeastRedis));
  }
  if (health.appendonly == "no") {
    warnings.push_back("appendonly no: a restart of Redis loses jobs; set appendonly yes and appendfsync always");
  } else if (health.appendfsync == "everysec") {
    warnings.push_back(
        "appendfsync everysec: up to one second of transitions can be lost "
        "when the machine dies; set appendfsync always");
  } else if (health.appendfsync == "no") {
    warnings.push_back(
        "appendfsync no: the operating system decides when transitions reach the disk, "
        "half a minute of them can be lost when the machine dies; set appendfsync always");
  }
  if (health.appendonly.empty())
    warnings.push_back("appendonly could not be read: nobody knows whether a restart of Redis loses jobs");
  else if (health.appendonly == "yes" && health.appendfsync.empty())
    warnings.push_back("appendfsync could not be read: transitions may be lost when the machine dies");
  if (!health.maxmemory_policy.empty() && health.maxmemory_policy != "noeviction")
    warnings.push_back("maxmemory-policy " + health.maxmemory_policy +
                       ": Redis may drop jobs when memory is short; set maxmemory-policy noeviction");
  health.disk_failed = info_field(persistence, "aof_last_write_status") == "err";
  if (health.disk_failed)
    warnings.push_back("the last write to the append-only file failed: is the disk of Redis full?");
  if (const auto evicted = eviction_warning(client); !evicted.empty()) warnings.push_back(evicted);
  if (const auto full = memory_warning(client); !full.empty()) warnings.push_back(full);
  health.usable = health.usable && health.role != "slave";
  if (health.role == "slave") warnings.push_back("this Redis is a replica: it takes no jobs; name its primary");
  return health;
}

}  // namespace foretime::jobs
