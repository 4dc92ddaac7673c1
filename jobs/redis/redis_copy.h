#pragma once

#include <filesystem>

#include <sys/types.h>

#include "base/no_copy.h"
#include "jobs/redis/redis_url.h"

namespace foretime::jobs {

/// A private Redis server for a copy of the data of a run root's embedded Redis. It serves for reading while the
/// original cannot be started because its file system is full or read-only. Copy and server live as long as this
/// object, in a new folder in the system's folder for temporary files or in /dev/shm. The server refuses every write.
class RedisCopy : NoCopy {
 public:
  /// Copies the data of `root`/.redis and starts the server. Throws RedisUnavailable if there are no data, they cannot
  /// be copied, or Redis is not installed or does not load them in a minute; RedisDataLost if data are missing; and
  /// RedisStorageError if a file cannot be read.
  explicit RedisCopy(const std::filesystem::path& root);
  ~RedisCopy();

  RedisUrl url() const { return {.socket = (folder_ / "redis.sock").string()}; }

 private:
  void make_folder(const std::filesystem::path& data);  // makes folder_ with a copy of the folder `data`
  void start();                                         // starts the server and waits until it has loaded the data
  void end();                                           // kills the server and removes folder_

  std::filesystem::path folder_;
  pid_t server_ = -1;
};

}  // namespace foretime::jobs
