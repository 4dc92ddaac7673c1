#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "base/descriptor.h"
#include "base/no_copy.h"
#include "jobs/redis/redis_url.h"
#include "jobs/redis/store_record.h"

namespace foretime::jobs {

/// Takes ownership of a descriptor and returns it, or a copy above 2 if it is 0, 1 or 2, which stray output could hit
/// if this process runs with closed standard streams.
Descriptor above_standard(int descriptor);

/// The folder of an embedded Redis. Its files are opened relative to its descriptor, so that nobody can put another
/// folder in its place. All descriptors are above 2 and close on exec.
class EmbeddedFolder {
 public:
  /// Opens `root`/.redis, made (mode 0700) if missing. Throws RedisUnavailable if it cannot be opened, is no folder,
  /// belongs to another user or admits others by its mode, and RedisStorageError if storage fails when it is made.
  explicit EmbeddedFolder(const std::filesystem::path& root);

  const std::filesystem::path& path() const { return path_; }  // absolute
  int descriptor() const { return descriptor_.get(); }
  /// Returns the path of redis.sock in less than the 108 bytes that a socket's address holds. A longer path is replaced
  /// by one in /proc/self/fd, which is valid only in this process and while this object lives.
  std::string socket() const;

  /// Opens a file of the folder with open(2)'s `flags`; a made file has mode 0600. Throws as fail_of() does.
  Descriptor open_file(const std::string& name, int flags) const;
  /// Returns why Redis cannot write to this folder and what to do: the file system is read-only, or has less than 1 MiB
  /// or no inode free. Returns "" if Redis can write.
  std::string shortage() const;
  int64_t log_size() const;  // bytes of redis.log; 0 if the file does not exist
  /// Returns the last 12 lines of redis.log after byte `from`, at most 4000 bytes; "" if there are none. If the log is
  /// shorter than `from`, it was emptied, and `from` counts as 0.
  std::string end_of_log(int64_t from) const;

  /// Throws RedisUnavailable with the text "embedded Redis: FOLDER: WHAT".
  [[noreturn]] void fail(const std::string& what) const;
  /// Throws fail("DOING: text of the errno `error`"), or RedisStorageError with shortage() if the storage failed.
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
///   that dies while there are users, and ends it by SIGTERM when there has been no user for `linger`. The file has a
///   line, which the guardian removes if a server exits before it ever answered, or has wrong settings.
/// - server.lock: held by guardian and server, so that a new guardian waits until the server of a killed one has ended.
/// - start.lock: held for moments by a user that looks for a guardian and starts one.
///
/// The file `owner` names the machine of the guardian (embedded_owner.h). Server and guardian run in a new session.
class EmbeddedRedis : NoCopy {
 public:
  static constexpr double kLinger = 2, kPatience = 60;  // seconds

  /// Starts the server if none runs, and waits until it has loaded its data. Throws RedisStorageError if the file
  /// system is full or read-only. Throws RedisUnavailable if redis-server is not installed or ends at once (the message
  /// ends with its log), the folder cannot be used, or the server runs on another host, has opened a port, or does not
  /// answer within `patience_seconds`. Throws RedisDataLost if data are missing; with `accept_loss`, a server that this
  /// object starts uses what is left, and a message on stderr names the missing data.
  explicit EmbeddedRedis(const std::filesystem::path& root, double linger_seconds = kLinger,
                         double patience_seconds = kPatience, bool accept_loss = false);

  /// Starts the server again if its guardian was killed, and waits until it answers. Throws like the constructor.
  void ensure();

  /// Throws RedisStorageError with the text of EmbeddedFolder::shortage() if that is not empty.
  void check_room() const;

  /// Returns the URL of EmbeddedFolder::socket(), which may be valid only in this process and while this object lives.
  RedisUrl url() const;
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  Deadline deadline() const;  // now + patience_
  /// Locks a file by flock's `operation`. Throws RedisUnavailable with `name` if that fails or lasts beyond `limit`.
  void lock(const Descriptor& file, const char* name, int operation, Deadline limit) const;
  /// Locks a file like lock(), without waiting; returns false if others hold the lock.
  bool try_lock(const Descriptor& file, const char* name, int operation) const;
  /// Calls prepare_append_only() and prints what was repaired or is missing to stderr.
  StoreRecord prepare_store() const;
  /// Forks a guardian; throws as ensure(). The caller has locked `guardian` (guardian.lock), `starting` (start.lock).
  void start_guardian(const Descriptor& guardian, const Descriptor& starting, Deadline limit) const;
  /// Throws RedisUnavailable with `what` and end_of_log(log_from).
  [[noreturn]] void give_up(const std::string& what, int64_t log_from) const;

  EmbeddedFolder folder_;
  std::chrono::milliseconds linger_, patience_;
  bool accept_loss_;
  Descriptor users_;  // users.lock, held shared
};

}  // namespace foretime::jobs
