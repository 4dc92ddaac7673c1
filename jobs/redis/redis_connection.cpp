#include "jobs/redis/redis_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using std::chrono::steady_clock;

/// The bytes that hiredis takes for one element: a redisReply and the pointer to it.
constexpr size_t kElementBytes = sizeof(redisReply) + sizeof(redisReply*);

timeval to_timeval(std::chrono::milliseconds time) {
  return {time.count() / 1000, static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

}  // namespace

std::string unavailable_message(const RedisUrl& url, const std::string& what) {
  return redact(fmt::format("Redis at {}: {}; start Redis there, "
                            "name another with --redis or FORETIME_REDIS, or name none to use the embedded one",
                            url.redacted(), what),
                url.password);
}

bool RedisConnection::Budget::spend(size_t bytes) {
  exceeded = exceeded || bytes > left;
  left -= std::min(bytes, left);
  return !exceeded;
}

/// hiredis allocates an array of the length that its header announces, before any element is there.
template <class Count>
void* RedisConnection::create_array(const redisReadTask* task, Count elements) {
  auto& budget = *static_cast<Budget*>(task->privdata);
  if (!budget.spend(static_cast<size_t>(elements) * kElementBytes)) return nullptr;
  return budget.create_array(task, elements);
}

RedisConnection::RedisConnection(const RedisUrl& url, std::chrono::milliseconds timeout, size_t largest_reply)
    : url_(url), timeout_(timeout), largest_reply_(largest_reply) {
  constexpr size_t kLongestSocket = sizeof(sockaddr_un::sun_path) - 1;
  if (url_.socket.size() > kLongestSocket)
    fail(fmt::format("the path of a socket holds at most {} bytes, this one {}", kLongestSocket, url_.socket.size()));
  context_.reset(url_.socket.empty() ? redisConnectWithTimeout(url_.host.c_str(), url_.port, to_timeval(timeout_))
                                     : redisConnectUnixWithTimeout(url_.socket.c_str(), to_timeval(timeout_)));
  if (!context_) fail("no memory for a connection");
  if (context_->err) fail(fmt::format("cannot connect: {}", context_->errstr));
  fcntl(context_->fd, F_SETFD, FD_CLOEXEC);
  fcntl(context_->fd, F_SETFL, O_NONBLOCK);
  // A peer that vanished without a word is noticed by the time limit of a call; this is for idle connections.
  if (url_.socket.empty()) redisEnableKeepAlive(context_.get());
  functions_ = *context_->reader->fn;
  budget_.create_array = functions_.createArray;
  functions_.createArray = &RedisConnection::create_array;
  context_->reader->fn = &functions_;
  context_->reader->privdata = &budget_;
}

RedisConnection::~RedisConnection() = default;

void RedisConnection::fail(const std::string& what) const { throw RedisUnavailable(unavailable_message(url_, what)); }

void RedisConnection::wait(short events, Deadline deadline, const std::string& doing) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd descriptor{context_->fd, events, 0};
    const int ready = left.count() < 0 ? 0 : poll(&descriptor, 1, left.count());
    if (ready > 0) return;
    if (ready == 0) fail(fmt::format("no answer to {} within {:g} s", doing, timeout_.count() / 1000.0));
    if (errno != EINTR) fail(fmt::format("{}: poll: {}", doing, std::strerror(errno)));
  }
}

void RedisConnection::send(const std::vector<Arguments>& calls) {
  std::string bytes;
  const auto add_length = [&](char type, size_t length) {
    std::array<char, 24> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), length).ptr;
    bytes += type;
    bytes.append(text.data(), end).append("\r\n");
  };
  for (const auto& call : calls) {
    add_length('*', call.size());
    for (const auto& argument : call) {
      add_length('$', argument.size());
      bytes.append(argument).append("\r\n");
    }
  }
  const auto& command = calls.empty() || calls.front().empty() ? std::string("nothing") : calls.front().front();
  auto deadline = steady_clock::now() + timeout_;
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(context_->fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      deadline = steady_clock::now() + timeout_;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait(POLLOUT, deadline, command);
    } else if (errno != EINTR) {
      fail(fmt::format("connection lost while sending {}: {}", command, std::strerror(errno)));
    }
  }
}

Reply RedisConnection::receive(const std::string& command) {
  return receive_until(steady_clock::now() + timeout_, command);
}

Reply RedisConnection::try_receive(const std::string& command) { return receive_until(Deadline::min(), command); }

Reply RedisConnection::receive_until(Deadline deadline, const std::string& command) {
  budget_.left = largest_reply_;
  budget_.exceeded = false;
  size_t received = 0;
  for (;;) {
    void* reply = nullptr;
    const bool sound = redisReaderGetReply(context_->reader, &reply) == REDIS_OK;
    if (sound && reply) return Reply(static_cast<redisReply*>(reply));
    if (budget_.exceeded || received > largest_reply_)
      throw RedisAnswerTooLarge("Redis at {}: the answer to {} is above the limit of {} bytes", url_.redacted(),
                                command, largest_reply_);
    if (!sound) fail(fmt::format("the answer to {} cannot be from Redis: {}", command, context_->reader->errstr));
    if (deadline != Deadline::min()) wait(POLLIN, deadline, command);
    std::array<char, 64 << 10> buffer;
    const ssize_t count = recv(context_->fd, buffer.data(), buffer.size(), 0);
    if (count == 0) fail(fmt::format("it closed the connection instead of answering {}", command));
    if (count > 0) {
      received += count;
      if (redisReaderFeed(context_->reader, buffer.data(), count) != REDIS_OK)
        fail(fmt::format("no memory for the answer to {}", command));
    } else if (errno == EAGAIN && deadline == Deadline::min()) {
      return nullptr;
    } else if (errno != EINTR && errno != EAGAIN) {
      fail(fmt::format("connection lost before the answer to {}: {}", command, std::strerror(errno)));
    }
  }
}

}  // namespace foretime::jobs
