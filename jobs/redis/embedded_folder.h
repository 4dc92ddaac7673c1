#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace foretime::jobs {

/// Moved above 2, where no stray output can hit it if this process runs with its standard streams closed.
Descriptor above_standard(int descriptor);

/// The folder of an embedded Redis. Everything is opened relative to its descriptor, so that nobody can put another
/// folder in its place. Every function throws RedisUnavailable; all descriptors are above 2 and close on exec.
class EmbeddedFolder {
 public:
  /// Makes `root`/.redis (0700) where it does not exist. Refuses one that is a link, belongs to another user, or that
  /// others may enter.
  explicit EmbeddedFolder(const std::filesystem::path& root);

  const std::filesystem::path& path() const { return path_; }  // absolute
  int descriptor() const { return descriptor_.get(); }
  /// Path of redis.sock, always below the 108 bytes of a socket's address; by /proc/self/fd where its name is longer,
  /// which means something in this process only, and while this object lives.
  std::string socket() const;

  Descriptor open_file(const std::string& name, int flags) const;
  /// redis.conf, made anew: redis.sock and no port, every write synced to the append-only file.
  void write_configuration() const;
  int64_t log_size() const;
  /// The last lines of redis.log after byte `from`; "" where there are none.
  std::string end_of_log(int64_t from) const;

  /// RedisUnavailable: "embedded Redis in FOLDER: WHAT".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

}  // namespace foretime::jobs
