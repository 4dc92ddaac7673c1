#pragma once

#include <filesystem>

#include <sys/types.h>

#include "jobs/redis/redis_url.h"

namespace foretime::jobs {

/// A private Redis over a copy of what the embedded Redis of a run root has written, for reading while the original
/// cannot be started: its file system is full or read-only. It lives as long as this object, in a separate folder in
/// the system's folder for temporary files (or /dev/shm), and refuses every write.
class RedisCopy {
 public:
  /// Throws RedisUnavailable: nothing was ever written there, the copy cannot be made, or Redis does not load it;
  /// RedisDataLost: less is there than was written.
  explicit RedisCopy(const std::filesystem::path& root);
  ~RedisCopy();
  RedisCopy(const RedisCopy&) = delete;
  RedisCopy& operator=(const RedisCopy&) = delete;

  RedisUrl url() const { return {.socket = (folder_ / "redis.sock").string()}; }

 private:
  void make_folder(const std::filesystem::path& data);
  void start();
  void end();

  std::filesystem::path folder_;
  pid_t server_ = -1;
};

}  // namespace foretime::jobs
