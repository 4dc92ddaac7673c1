#pragma once

#include <cstdint>
#include <string>

namespace foretime::jobs {

/// The address of a Redis and our credentials there.
struct RedisUrl {
  std::string host{};  // empty for a socket; IPv6 without brackets
  int64_t port = 6379;
  std::string socket{};  // path of a Unix socket
  std::string user{}, password{};
  std::string password_file{};  // read at each new connection, in place of `password`: it may change
  int64_t database = 0;

  /// Reads redis://[user[:password]@]host[:port][/database] or unix://[user[:password]@]/path/redis.sock[?db=n],
  /// percent-encoding decoded; an IPv6 host is in brackets. rediss:// is refused: this build has no TLS. Throws
  /// JobsError, whose message never repeats what could be a password.
  static RedisUrl parse(const std::string& text);
  /// Reads FORETIME_REDIS with FORETIME_REDIS_USER and FORETIME_REDIS_PASSWORD, or FORETIME_REDIS_PASSWORD_FILE, laid
  /// over it. `option` (the command line's) wins over FORETIME_REDIS, and must not hold a user or password, which
  /// everybody on the machine could read in its list of processes: JobsError. `found` is false where neither names one.
  static RedisUrl from_environment(const std::string& option, bool& found);
  /// Returns the URL as it may be shown: the password is ***, and so is a user who stands alone (redis-cli reads such
  /// as a password).
  std::string redacted() const;
};

/// Returns `text` with every occurrence of the password in it replaced, and the user-info part of any redis:// URL.
std::string redact(const std::string& text, const std::string& password);

}  // namespace foretime::jobs
