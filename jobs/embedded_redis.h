#pragma once

#include <filesystem>
#include <string>

#include "jobs/redis_url.h"

namespace foretime::jobs {

/// Debian's redis-server for one run root, started by whoever comes first and stopped when the last user leaves.
///
/// In `root`/.redis (mode 0700): redis.sock (no TCP port), appendonlydir (append-only file, fsync at every write),
/// redis.log, redis.conf, and two lock files. `users.lock` is held shared by every living user of the server, so that
/// the kernel counts them, also those killed with SIGKILL. A guardian process, which holds `server.lock`, runs the
/// server as its child, starts it again when it dies while there are users, and ends it (SIGTERM, everything is in
/// the append-only file) when no user was left for `linger`. Server and guardian leave the starter's session.
class EmbeddedRedis {
 public:
  /// Starts the server if nobody did, and waits until it has loaded its data. Throws RedisUnavailable: redis-server is
  /// not installed, the folder cannot be used (not ours, or others may read it), no answer within `patience`.
  explicit EmbeddedRedis(const std::filesystem::path& root, double linger_seconds = 2.0,
                         double patience_seconds = 60.0);
  ~EmbeddedRedis();  // lets go of users.lock, and does nothing else
  EmbeddedRedis(const EmbeddedRedis&) = delete;
  EmbeddedRedis& operator=(const EmbeddedRedis&) = delete;

  RedisUrl url() const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  int users_lock_ = -1;
  int folder_descriptor_ = -1;  // for paths above the 107 bytes of a socket address: /proc/self/fd/N/redis.sock
};

}  // namespace foretime::jobs
