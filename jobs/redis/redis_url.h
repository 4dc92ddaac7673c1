#pragma once

#include <cstdint>
#include <string>

namespace foretime::jobs {

/// The address of a Redis and the credentials for it.
struct RedisUrl {
  std::string host{};  // empty for a socket; IPv6 without brackets
  int64_t port = 6379;
  std::string socket{};            // path of a Unix socket; empty for a host
  std::string user{}, password{};  // empty: none
  std::string password_file{};     // file whose text replaces `password` at each new connection; empty: none
  int64_t database = 0;

  /// Parses redis://[user[:password]@]host[:port][/database] or unix://[user[:password]@]/path/redis.sock[?db=n], and
  /// decodes percent-encoding; an IPv6 host is in brackets. Throws JobsError for any other text and for rediss://,
  /// since this build has no TLS. The message never repeats text that could be a password.
  static RedisUrl parse(const std::string& text);
  /// Parses the URL in `option` (of the command line), or in FORETIME_REDIS if `option` is empty. FORETIME_REDIS_USER,
  /// FORETIME_REDIS_PASSWORD and FORETIME_REDIS_PASSWORD_FILE override its credentials. Sets `found` to false and reads
  /// nothing if both are empty. Throws JobsError as parse() does, if `option` has a user or password, which everybody
  /// on the machine could read in the list of processes, and if a password and a password file are given.
  static RedisUrl from_environment(const std::string& option, bool& found);
  /// Returns the URL as it may be shown: *** replaces the password, or a user without one (redis-cli: a password).
  std::string redacted() const;
};

/// Returns `text` with *** for each occurrence of `password`, also percent-encoded, and for user and password in any
/// redis://, rediss:// or unix:// URL.
std::string redact(const std::string& text, const std::string& password);

}  // namespace foretime::jobs
