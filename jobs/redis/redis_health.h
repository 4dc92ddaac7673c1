#pragma once

#include <string>
#include <vector>

#include "jobs/redis/redis_client.h"

namespace foretime::jobs {

/// Returns a warning if Redis uses four fifths or more of maxmemory, or of the machine's memory if maxmemory is 0.
/// Returns "" if it uses less or if this user may not read it. Throws RedisUnavailable.
std::string memory_warning(RedisClient& client);

/// Returns a warning with the number of keys that Redis has evicted since its start. Returns "" if there are none or if
/// this user may not read the number. Throws RedisUnavailable.
std::string eviction_warning(RedisClient& client);

/// Redis' settings of durability, for `foretime doctor` and `foretime queue`. `warnings` has a text for each setting or
/// state that could lose jobs. Fields that the user may not read are empty.
struct RedisHealth {
  std::string version, role, appendonly, appendfsync, maxmemory_policy;
  std::vector<std::string> warnings;
  bool usable = true;        // false: older than kLeastRedis, or a replica
  bool disk_failed = false;  // Redis' last write to the append-only file failed
};
constexpr int kLeastRedis = 7;  // oldest usable major version: scripts declare flags, which came with it
/// Reads the health of a Redis. Throws RedisUnavailable, and RedisRefused or RedisDenied if Redis refuses even PING.
RedisHealth examine(RedisClient& client);

}  // namespace foretime::jobs
