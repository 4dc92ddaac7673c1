#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hiredis/hiredis.h>

#include "jobs/redis/redis_url.h"

namespace foretime::jobs {

struct ReplyDeleter {
  void operator()(redisReply* r) const { freeReplyObject(r); }
};
using Reply = std::unique_ptr<redisReply, ReplyDeleter>;

/// One conversation with Redis: commands out, replies in, in their order. Everything throws RedisUnavailable, after
/// which the conversation must be dropped: what comes next on it may be the answer to an older call.
class RedisTransport {
 public:
  using Arguments = std::vector<std::string>;
  virtual ~RedisTransport() = default;
  virtual void send(const std::vector<Arguments>& calls) = 0;
  /// The next reply; `command` is for messages.
  virtual Reply receive(const std::string& command) = 0;
  /// A reply that is there already; empty: none yet.
  virtual Reply try_receive(const std::string& command) = 0;
  /// Readable when there may be a reply; -1: there is no such thing.
  virtual int descriptor() const { return -1; }
};

/// One socket to Redis: commands out, replies in, each within a time limit, and no reply above a size. hiredis makes
/// the connection, formats and parses; sending and receiving are ours, because hiredis raises SIGPIPE, starts its time
/// limit anew with every byte, and allocates arrays by the length that they announce.
class RedisConnection final : public RedisTransport {
 public:
  /// Connects. `largest_reply` in bytes, as on the wire or as held in memory, whichever is more.
  RedisConnection(const RedisUrl& url, std::chrono::milliseconds timeout, size_t largest_reply);
  ~RedisConnection() override;
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  void send(const std::vector<Arguments>& calls) override;
  Reply receive(const std::string& command) override;
  Reply try_receive(const std::string& command) override;
  int descriptor() const override { return context_->fd; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  /// Deadline::min(): does not wait, and returns nothing where no reply is there.
  Reply receive_until(Deadline deadline, const std::string& command);
  void wait(short events, Deadline deadline, const std::string& doing);
  [[noreturn]] void fail(const std::string& what) const;

  struct ContextDeleter {
    void operator()(redisContext* c) const { redisFree(c); }
  };
  /// What the reply that is being read may still cost; the parser's callbacks draw on it.
  struct Budget {
    size_t left = 0;
    bool exceeded = false;
    decltype(redisReplyObjectFunctions::createArray) create_array = nullptr;  // hiredis' own
    bool spend(size_t bytes);
  };
  template <class Count>  // int before hiredis 1.0, size_t since
  static void* create_array(const redisReadTask* task, Count elements);

  RedisUrl url_;
  std::chrono::milliseconds timeout_;
  size_t largest_reply_;
  Budget budget_;
  redisReplyObjectFunctions functions_{};
  std::unique_ptr<redisContext, ContextDeleter> context_;
};

/// "Redis at ADDRESS: WHAT; ADVICE", without the password: for RedisUnavailable.
std::string unavailable_message(const RedisUrl& url, const std::string& what);

/// Bytes of one answer.
inline constexpr size_t kLargestReply = 64 << 20;

/// A connection that is made when needed, for one thread. Connects at the first call, authenticates, and checks once
/// for each connection that this Redis can be trusted with jobs (maxmemory-policy noeviction). After a failure the next
/// call connects anew; nothing is repeated behind the caller's back, since a transition may have happened although its
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
  /// The same script for each of several arguments, in their order, as one pipeline. Where Redis did not know it, those
  /// from the first unanswered one on are sent again.
  std::vector<Reply> scripts(const std::string& text, const std::string& sha1, const Arguments& keys,
                             const std::vector<Arguments>& arguments);

  /// A connection of its own that gets what is published on a channel, each as an array "message", channel, text; the
  /// next call connects anew.
  std::unique_ptr<RedisTransport> subscribe(const std::string& channel);

  /// Called before each new connection, also the first: where Redis may have to be started first.
  void before_connecting(std::function<void()> prepare) { prepare_ = std::move(prepare); }

  /// Called when a connection fails: may throw what is behind that, a full disk of Redis, say.
  void after_loss(std::function<void()> explain) { explain_ = std::move(explain); }

  /// In place of sockets, for simulations: makes the transport of a new connection.
  using Connect = std::function<std::unique_ptr<RedisTransport>(const RedisUrl&)>;
  void connect_by(Connect connect) { connect_by_ = std::move(connect); }

  /// For messages: without the password.
  std::string name() const;
  const RedisUrl& url() const { return url_; }
  void disconnect();

 private:
  void connect();
  void follow(const std::string& moved);
  /// Replies as they come, error answers too.
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

/// Text of a string or status reply, "" for nil; throws RedisUnavailable for another type.
std::string text_of(const redisReply& reply);
int64_t integer_of(const redisReply& reply);
/// Elements of an array reply as text.
std::vector<std::string> texts_of(const redisReply& reply);
/// The value of `name` in the text that INFO answers, or "".
std::string info_field(const std::string& info, const std::string& name);

/// Empty while there is room, else how much of its memory Redis uses: from four fifths of maxmemory on, or of the
/// machine's memory where maxmemory is 0. At maxmemory it takes no more jobs. Throws like RedisClient::call; where the
/// user may not ask, nothing is known.
std::string memory_warning(RedisClient& client);

/// What Redis says about durability, for `foretime doctor` and `foretime queue`: appendonly, appendfsync, eviction
/// policy, version; a warning where jobs could be lost. Fields that the user may not read are empty.
struct RedisHealth {
  std::string version, role, appendonly, appendfsync, maxmemory_policy;
  std::vector<std::string> warnings;
  bool usable = true;        // new enough (kLeastRedis), and no replica
  bool disk_failed = false;  // its last write to the append-only file
};
constexpr int kLeastRedis = 7;  // major version: scripts declare flags, which came with it
/// Throws RedisUnavailable, and RedisRefused where it may not even connect.
RedisHealth examine(RedisClient& client);

}  // namespace foretime::jobs
