#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
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
  /// Returns the next reply; `command` is for messages.
  virtual Reply receive(const std::string& command) = 0;
  /// Returns a reply that is there already; empty: none yet.
  virtual Reply try_receive(const std::string& command) = 0;
  /// Returns a descriptor that is readable when there may be a reply; -1: there is none.
  virtual int descriptor() const { return -1; }
};

/// One socket to Redis: commands out, replies in, each within a time limit, and no reply above a size. hiredis makes
/// the connection, formats and parses; sending and receiving are ours, because hiredis raises SIGPIPE, starts its time
/// limit again with every byte, and allocates arrays by the length that they announce.
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
  /// Returns the next reply. With Deadline::min() it does not wait, and returns nothing where no reply is there.
  Reply receive_until(Deadline deadline, const std::string& command);
  void wait(short events, Deadline deadline, const std::string& doing);
  [[noreturn]] void fail(const std::string& what) const;

  struct ContextDeleter {
    void operator()(redisContext* c) const { redisFree(c); }
  };
  /// The bytes that the current reply may still take; the parser's callbacks reduce them.
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

/// Returns "Redis at ADDRESS: WHAT; ADVICE", without the password: for RedisUnavailable.
std::string unavailable_message(const RedisUrl& url, const std::string& what);

}  // namespace foretime::jobs
