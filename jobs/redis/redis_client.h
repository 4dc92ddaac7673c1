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

inline constexpr size_t kLargestReply = 64 << 20;  // default limit of one reply, in bytes

/// A client of Redis for one thread. Connects at the first call, authenticates, and checks for each connection that
/// Redis drops no jobs (maxmemory-policy noeviction). After a failure the next call connects again. No call is
/// repeated, since Redis may have executed it although the answer was lost.
class RedisClient {
 public:
  /// `timeout` bounds connecting, and the wait for each reply. `largest_reply` bounds one reply, in bytes.
  explicit RedisClient(RedisUrl url, std::chrono::milliseconds timeout = std::chrono::seconds(5),
                       size_t largest_reply = kLargestReply);

  using Arguments = RedisTransport::Arguments;
  /// Sends a command and returns the reply. Throws RedisUnavailable (no connection, no answer within the timeout, an
  /// answer above the limit; a Redis that loads its data, is out of memory, is a replica, or runs a script for too
  /// long), RedisDenied (a password, a right, an eviction policy) and RedisRefused (any other error answer, with its
  /// text). Follows the answer MOVED of a cluster to the node that it names, at most three times.
  Reply call(const Arguments& arguments);
  /// Sends all commands, then reads all replies, and returns them in the order of `calls`. The first error answer is
  /// thrown as by call(), after all replies were read.
  std::vector<Reply> pipeline(const std::vector<Arguments>& calls);
  /// Runs a Lua script by its SHA-1, and sends its text if Redis does not know it. Throws like call().
  Reply script(const std::string& text, const std::string& sha1, const Arguments& keys, const Arguments& arguments);
  /// Runs a script for each element of `arguments`, in order, as one pipeline, and throws like pipeline().
  std::vector<Reply> scripts(const std::string& text, const std::string& sha1, const Arguments& keys,
                             const std::vector<Arguments>& arguments);

  /// Returns a connection that receives each message of a channel as an array: "message", the channel, the text. This
  /// client makes a new connection at its next call. Throws like call().
  std::unique_ptr<RedisTransport> subscribe(const std::string& channel);

  /// Sets a function that is called before each new connection, also the first, for example to start Redis.
  void before_connecting(std::function<void()> prepare) { prepare_ = std::move(prepare); }

  /// Sets a function that is called before a call throws RedisUnavailable over its connection. The function may throw
  /// another error with the cause, such as a full disk.
  void after_loss(std::function<void()> explain) { explain_ = std::move(explain); }

  /// Makes the transport of a new connection in place of sockets, for simulations.
  using Connect = std::function<std::unique_ptr<RedisTransport>(const RedisUrl&)>;
  void connect_by(Connect connect) { connect_by_ = std::move(connect); }

  /// Returns the address for messages, without the password.
  std::string name() const;
  const RedisUrl& url() const { return url_; }
  void disconnect();  // closes the connection; the next call makes a new one

 private:
  void connect();  // makes a connection, authenticates, selects the database and calls refuse_eviction()
  /// Makes the next connection go to the node in `moved`, a cluster's answer "MOVED SLOT HOST:PORT".
  void follow(const std::string& moved);
  /// Sends all calls and returns their replies, error answers included; only MOVED is followed.
  std::vector<Reply> exchange(const std::vector<Arguments>& calls);
  /// Throws the error of an error answer to `command`, as described at call().
  [[noreturn]] void throw_error(const std::string& command, const redisReply& reply) const;
  /// Throws RedisDenied if Redis may drop jobs: maxmemory-policy can be read and is not noeviction.
  void refuse_eviction();

  RedisUrl url_;
  std::chrono::milliseconds timeout_;
  size_t largest_reply_;                     // most bytes of one reply
  std::function<void()> prepare_, explain_;  // set by before_connecting and after_loss
  Connect connect_by_;
  std::unique_ptr<RedisTransport> connection_;
};

/// Returns the text of a string or status reply, "" for nil. Throws RedisUnavailable for another type.
std::string text_of(const redisReply& reply);
/// Returns the number of an integer reply. Throws RedisUnavailable for another type.
int64_t integer_of(const redisReply& reply);
/// Returns the elements of an array reply as text_of() each; none for nil. Throws RedisUnavailable for another type.
std::vector<std::string> texts_of(const redisReply& reply);
/// Returns the value of the field `name` in `info`, the answer to INFO; "" if it has none.
std::string info_field(const std::string& info, const std::string& name);

}  // namespace foretime::jobs
