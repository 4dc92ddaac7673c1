#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hiredis/hiredis.h>

#include "jobs/redis_url.h"

namespace foretime::jobs {

struct ReplyDeleter {
  void operator()(redisReply* r) const { freeReplyObject(r); }
};
using Reply = std::unique_ptr<redisReply, ReplyDeleter>;

/// One connection, for one thread. Connects at the first call, authenticates, and checks once that this Redis can be
/// trusted with jobs (maxmemory-policy noeviction). After a failure the next call connects anew; nothing is repeated
/// behind the caller's back, since a transition may have happened although its answer was lost.
class RedisClient {
 public:
  explicit RedisClient(RedisUrl url, std::chrono::milliseconds timeout = std::chrono::seconds(5));

  using Arguments = std::vector<std::string>;
  /// Throws RedisUnavailable (no connection, no answer within the timeout, LOADING, an answer above Limits::kReply) and
  /// RedisRefused (an error answer; its text is in the message). Follows a cluster's MOVED to the node that it names.
  Reply call(const Arguments& arguments);
  /// Sends all, then reads all; an error answer throws like `call` after everything was read.
  std::vector<Reply> pipeline(const std::vector<Arguments>& calls);
  /// Runs a Lua script by its SHA-1, loading it where this Redis does not know it (after a restart, say).
  Reply script(const std::string& text, const std::string& sha1, const Arguments& keys, const Arguments& arguments);

  /// For messages: without the password.
  std::string name() const;
  const RedisUrl& url() const { return url_; }
  void disconnect();

 private:
  void connect();
  Reply exchange(const Arguments& arguments);

  struct ContextDeleter {
    void operator()(redisContext* c) const { redisFree(c); }
  };
  RedisUrl url_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<redisContext, ContextDeleter> context_;
  bool checked_ = false;
};

/// Text of a string or status reply, "" for nil; throws RedisUnavailable for another type.
std::string text_of(const redisReply& reply);
int64_t integer_of(const redisReply& reply);
/// Elements of an array reply as text.
std::vector<std::string> texts_of(const redisReply& reply);

/// What Redis says about durability, for `foretime doctor` and `foretime queue`: appendonly, appendfsync, eviction
/// policy, version; a warning where jobs could be lost. Fields that the user may not read are empty.
struct RedisHealth {
  std::string version, role, appendonly, appendfsync, maxmemory_policy;
  std::vector<std::string> warnings;
};
RedisHealth examine(RedisClient& client);

}  // namespace foretime::jobs
