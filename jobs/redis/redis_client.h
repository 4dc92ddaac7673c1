#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hiredis/hiredis.h>

#include "jobs/redis/redis_connection.h"
#include "jobs/redis/redis_url.h"

namespace foretime::jobs {

inline constexpr size_t kLargestReply = 64 << 20;  // bytes

/// A connection that is made when needed, for one thread. Connects at the first call, authenticates, and checks once
/// for each connection that this Redis can be trusted with jobs (maxmemory-policy noeviction). After a failure the next
/// call connects again; nothing is repeated behind the caller's back, since a transition may have happened although its
/// answer was lost.
class RedisClient {
 public:
  /// `timeout` bounds connecting, and each call. `largest_reply` in bytes.
  explicit RedisClient(RedisUrl url, std::chrono::milliseconds timeout = std::chrono::seconds(5),
                       size_t largest_reply = kLargestReply);

  using Arguments = RedisTransport::Arguments;
  /// Throws RedisUnavailable (no connection, no answer within the timeout, an answer above the limit; a Redis that
  /// loads its data, is out of memory, is a replica, or runs a script for too long), RedisDenied (a password or a
  /// right) and RedisRefused (any other error answer; its text is in the message). Follows a cluster's MOVED to the
  /// node that it names, at most three times.
  Reply call(const Arguments& arguments);
  /// Sends all, then reads all; an error answer throws like `call` after everything was read.
  std::vector<Reply> pipeline(const std::vector<Arguments>& calls);
  /// Runs a Lua script by its SHA-1, loading it where this Redis does not know it (after a restart, say).
  Reply script(const std::string& text, const std::string& sha1, const Arguments& keys, const Arguments& arguments);
  /// Runs the same script for each of several arguments, in their order, as one pipeline. Where Redis did not know it,
  /// those from the first unanswered one on are sent again.
  std::vector<Reply> scripts(const std::string& text, const std::string& sha1, const Arguments& keys,
                             const std::vector<Arguments>& arguments);

  /// Returns a separate connection that gets what is published on a channel, each as an array "message", channel,
  /// text; the next call connects again.
  std::unique_ptr<RedisTransport> subscribe(const std::string& channel);

  /// Sets what is called before each new connection, also the first: where Redis may have to be started first.
  void before_connecting(std::function<void()> prepare) { prepare_ = std::move(prepare); }

  /// Sets what is called when a connection fails: it may throw what is behind that, a full disk of Redis, say.
  void after_loss(std::function<void()> explain) { explain_ = std::move(explain); }

  /// Makes the transport of a new connection in place of sockets, for simulations.
  using Connect = std::function<std::unique_ptr<RedisTransport>(const RedisUrl&)>;
  void connect_by(Connect connect) { connect_by_ = std::move(connect); }

  /// Returns the address for messages, without the password.
  std::string name() const;
  const RedisUrl& url() const { return url_; }
  void disconnect();

 private:
  void connect();
  void follow(const std::string& moved);
  /// Returns replies as they come, error answers too.
  std::vector<Reply> exchange(const std::vector<Arguments>& calls);
  [[noreturn]] void throw_error(const std::string& command, const redisReply& reply) const;
  void refuse_eviction();

  RedisUrl url_;
  std::chrono::milliseconds timeout_;
  size_t largest_reply_;
  std::function<void()> prepare_, explain_;
  Connect connect_by_;
  std::unique_ptr<RedisTransport> connection_;
};

/// Returns the text of a string or status reply, "" for nil. Throws RedisUnavailable for another type.
std::string text_of(const redisReply& reply);
int64_t integer_of(const redisReply& reply);
/// Returns the elements of an array reply as text.
std::vector<std::string> texts_of(const redisReply& reply);
/// Returns the value of `name` in the text that INFO answers, or "".
std::string info_field(const std::string& info, const std::string& name);

}  // namespace foretime::jobs
