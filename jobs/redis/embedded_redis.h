#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "base/descriptor.h"
#include "jobs/redis/redis_url.h"
#include "jobs/redis/store_record.h"

namespace foretime::jobs {

/// Moves a descriptor above 2, where no stray output can hit it if this process runs with its standard streams closed.
Descriptor above_standard(int descriptor);

/// The folder of an embedded Redis. Everything is opened relative to its descriptor, so that nobody can put another
/// folder in its place. Every function throws RedisUnavailable, or RedisStorageError where the storage fails; all
/// descriptors are above 2 and close on exec.
class EmbeddedFolder {
 public:
  /// Makes `root`/.redis (0700) where it does not exist. Refuses one that is a link, belongs to another user, or that
  /// others may enter.
  explicit EmbeddedFolder(const std::filesystem::path& root);

  const std::filesystem::path& path() const { return path_; }  // absolute
  int descriptor() const { return descriptor_.get(); }
  /// Returns the path of redis.sock, always below the 108 bytes of a socket's address; by /proc/self/fd where its name
  /// is longer, which means something in this process only, and while this object lives.
  std::string socket() const;

  Descriptor open_file(const std::string& name, int flags) const;
  /// Returns why Redis could not write there: a read-only file system, or too little room, with what to do. "" while it
  /// can.
  std::string shortage() const;
  int64_t log_size() const;
  /// Returns the last lines of redis.log after byte `from`; "" where there are none.
  std::string end_of_log(int64_t from) const;

  /// Throws RedisUnavailable: "embedded Redis in FOLDER: WHAT".
  [[noreturn]] void fail(const std::string& what) const;
  /// Throws the same with what the system says, or RedisStorageError with the shortage where the storage fails.
  [[noreturn]] void fail_of(const std::string& doing, int error) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

/// Debian's redis-server for one run root, started by its first user and stopped when the last one leaves.
///
/// `root`/.redis (mode 0700) has redis.sock (there is no TCP port), appendonlydir (append-only file, fsync at every
/// write), `written` (how much of it there must be, store_record.h), redis.log, and lock files (flock, which the kernel
/// releases when a process is killed):
///
/// - users.lock: held shared by every living user.
/// - guardian.lock: held by the guardian, a separate process that runs the server as its child. It restarts a server
///   that dies while there are users, and ends it (SIGTERM; everything is in the append-only file) when there has been
///   no user for `linger`. The file holds a line, or nothing once a server ended of itself without ever having
///   answered.
/// - server.lock: held by guardian and server. Where the guardian is killed the server ends too, and the next guardian
///   waits until it has.
/// - start.lock: held for moments, by a user that looks for a guardian and starts one.
///
/// The file `owner` says which machine's guardian serves the folder, for file systems whose locks other machines do not
/// see (embedded_owner.h).
///
/// Server and guardian leave the starter's session and hold none of its descriptors.
class EmbeddedRedis {
 public:
  static constexpr double kLinger = 2, kPatience = 60;  // seconds

  /// Starts the server if nobody did, and waits until it has loaded its data. Throws RedisUnavailable: redis-server is
  /// not installed or ends at once (the message ends with its log), the folder cannot be used (not ours, or others may
  /// read it), the server runs on another host or has opened a port, no answer within `patience`; RedisStorageError:
  /// the file system is full or read-only; RedisDataLost: less data are there than were written, unless `accept_loss`:
  /// then a server that this object starts continues with what is left, and a message on stderr says what is missing.
  explicit EmbeddedRedis(const std::filesystem::path& root, double linger_seconds = kLinger,
                         double patience_seconds = kPatience, bool accept_loss = false);
  EmbeddedRedis(const EmbeddedRedis&) = delete;  // the end lets go of users.lock, and does nothing else
  EmbeddedRedis& operator=(const EmbeddedRedis&) = delete;

  /// Restarts the server if its guardian was killed, and returns when it answers: for long-lived users, after
  /// their Redis was lost. Throws like the constructor.
  void ensure();

  /// Throws RedisStorageError where the server would end at one of its next writes.
  void check_room() const;

  /// Returns the URL of the server. Where the folder's path is long it means something in this process only, and while
  /// this object lives.
  RedisUrl url() const;
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  Deadline deadline() const;
  void lock(const Descriptor& file, const char* name, int operation, Deadline limit) const;
  bool try_lock(const Descriptor& file, const char* name, int operation) const;
  StoreRecord prepare_store() const;
  void start_guardian(const Descriptor& guardian, const Descriptor& starting, Deadline limit) const;
  [[noreturn]] void give_up(const std::string& what, int64_t log_from) const;

  EmbeddedFolder folder_;
  std::chrono::milliseconds linger_, patience_;
  bool accept_loss_;
  Descriptor users_;
};

}  // namespace foretime::jobs
