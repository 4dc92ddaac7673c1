#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>

#include "base/no_copy.h"
#include "jobs/redis/redis_url.h"

namespace foretime::jobs {

struct ReplyDeleter {
  void operator()(redisReply* r) const { freeReplyObject(r); }
};
using Reply = std::unique_ptr<redisReply, ReplyDeleter>;

/// One connection to Redis: sends commands and receives their replies in the same order. Every function may throw
/// RedisUnavailable. Then drop the connection: its next reply may belong to an older command.
class RedisTransport {
 public:
  using Arguments = std::vector<std::string>;
  virtual ~RedisTransport() = default;
  virtual void send(const std::vector<Arguments>& calls) = 0;  // receive() then returns a reply for each call
  /// Waits for the next reply and returns it. `command` names the awaited answer in error messages.
  virtual Reply receive(const std::string& command) = 0;
  /// Returns the next reply without waiting; null if it has not arrived yet.
  virtual Reply try_receive(const std::string& command) = 0;
  /// Returns a descriptor that becomes readable when a reply may have arrived; -1 if there is no such descriptor.
  virtual int descriptor() const { return -1; }
};

/// One socket to Redis with a time limit for each command and reply and a size limit for each reply. hiredis connects
/// and parses. It does not send and receive, since it raises SIGPIPE and starts its time limit again with every byte.
class RedisConnection final : public RedisTransport, NoCopy {
 public:
  /// Connects within `timeout`, which also limits each reply. `largest_reply` limits the bytes of a reply, both as
  /// received and as arrays in memory; a larger one throws RedisAnswerTooLarge.
  RedisConnection(const RedisUrl& url, std::chrono::milliseconds timeout, size_t largest_reply);
  ~RedisConnection() override;

  void send(const std::vector<Arguments>& calls) override;
  Reply receive(const std::string& command) override;
  Reply try_receive(const std::string& command) override;
  int descriptor() const override { return context_->fd; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  /// Returns the next reply. With Deadline::min() it does not wait, and returns null if no reply has arrived.
  Reply receive_until(Deadline deadline, const std::string& command);
  /// Waits for poll `events` of the socket. Throws RedisUnavailable, naming the command `doing`, after `deadline`.
  void wait(short events, Deadline deadline, const std::string& doing);
  [[noreturn]] void fail(const std::string& what) const;  // throws RedisUnavailable with unavailable_message()

  struct ContextDeleter {
    void operator()(redisContext* c) const { redisFree(c); }
  };
  /// Counts the bytes that the arrays of the current reply may still take.
  struct Budget {
    size_t left = 0;                                                          // bytes
    bool exceeded = false;                                                    // more was needed than was left
    decltype(redisReplyObjectFunctions::createArray) create_array = nullptr;  // function of hiredis that makes arrays
    bool spend(size_t bytes);  // takes `bytes` from the budget; returns false if the budget is exceeded, now or before
  };
  /// Makes an array for hiredis; null, which ends the reply with an error, if the budget does not suffice.
  template <class Count>  // int before hiredis 1.0, size_t since
  static void* create_array(const redisReadTask* task, Count elements);

  RedisUrl url_;
  std::chrono::milliseconds timeout_;
  size_t largest_reply_;
  Budget budget_;
  redisReplyObjectFunctions functions_{};
  std::unique_ptr<redisContext, ContextDeleter> context_;
};

/// Returns the text of a RedisUnavailable, "Redis at ADDRESS: WHAT; ADVICE", without the password.
std::string unavailable_message(const RedisUrl& url, const std::string& what);

}  // namespace foretime::jobs
