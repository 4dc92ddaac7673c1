#pragma once

#include <string>
#include <vector>

#include "jobs/redis/redis_client.h"

namespace foretime::jobs {

/// Returns nothing while there is room, else how much of its memory Redis uses: from four fifths of maxmemory on, or of
/// the machine's memory where maxmemory is 0. At maxmemory it takes no more jobs. Throws like RedisClient::call; where
/// the user may not ask, nothing is known.
std::string memory_warning(RedisClient& client);

/// Returns nothing, or how many keys Redis has evicted since its start. Throws like RedisClient::call; where the user
/// may not ask, nothing is known.
std::string eviction_warning(RedisClient& client);

/// Redis' settings of durability, for `foretime doctor` and `foretime queue`, with a warning for each that could lose
/// jobs. Fields that the user may not read are empty.
struct RedisHealth {
  std::string version, role, appendonly, appendfsync, maxmemory_policy;
  std::vector<std::string> warnings;
  bool usable = true;        // new enough (kLeastRedis), and no replica
  bool disk_failed = false;  // whether its last write to the append-only file failed
};
constexpr int kLeastRedis = 7;  // major version: scripts declare flags, which came with it
/// Throws RedisUnavailable, and RedisRefused where it may not even connect.
RedisHealth examine(RedisClient& client);

}  // namespace foretime::jobs
