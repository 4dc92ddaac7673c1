#include "jobs/progress/sender.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr const char* kVariable = "FORETIME_PROGRESS";
constexpr double kPatience = 1.0;          // seconds
constexpr size_t kPendingBytes = 1 << 20;  // an agent that is so far behind is taken for lost
constexpr size_t kReceivedBytes = 64 << 10;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::unique_ptr<ProgressSender> ProgressSender::from_environment() {
  const char* path = std::getenv(kVariable);
  if (path == nullptr || *path == 0) return nullptr;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof(address.sun_path)) {
    fmt::print(stderr, "{}: {} is longer than a socket's address; progress is not sent\n", kVariable, path);
    return nullptr;
  }
  std::strcpy(address.sun_path, path);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0 || connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fmt::print(stderr, "{}: {}: {}; progress is not sent\n", kVariable, path, std::strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return nullptr;
  }
  auto sender = std::make_unique<ProgressSender>(descriptor);
  ProgressMessage hello;
  hello.kind = ProgressMessage::Kind::hello;
  hello.pid = getpid();
  sender->send(hello);
  return sender;
}

ProgressSender::ProgressSender(int socket) : socket_(socket) {}
ProgressSender::~ProgressSender() {
  flush(kPatience);
  close(socket_);
}

void ProgressSender::send(const ProgressMessage& message) {
  if (broken_) return;
  const bool progress = message.kind == ProgressMessage::Kind::progress;
  if (progress) {
    // A line that was sent in part is finished before anything else.
    if (now_seconds() - last_progress_ < kProgressInterval || !flush(0)) return;
    last_progress_ = now_seconds();
  }
  try {
    pending_ += to_line(message);
  } catch (const JobsError& error) {
    fmt::print(stderr, "not sent to the agent: {}\n", error.what());
  }
  flush(progress ? 0 : kPatience);
  if (pending_.size() > kPendingBytes) broken_ = true;
}

bool ProgressSender::flush(double patience_seconds) {
  const double limit = now_seconds() + patience_seconds;
  while (!pending_.empty() && !broken_) {
    const auto sent = ::send(socket_, pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      pending_.erase(0, static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      broken_ = true;
      break;
    }
    const double left = limit - now_seconds();
    if (left <= 0) return false;
    pollfd wait{socket_, POLLOUT, 0};
    poll(&wait, 1, static_cast<int>(std::max(1.0, left * 1e3)));
  }
  return true;
}

bool ProgressSender::stop_requested() {
  std::array<char, 4096> buffer{};
  while (!stop_ && !broken_) {
    const auto got = recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      broken_ = true;
      break;
    }
    received_.append(buffer.data(), static_cast<size_t>(got));
    for (auto end = received_.find('\n'); end != std::string::npos; end = received_.find('\n')) {
      stop_ = stop_ || is_stop_line(received_.substr(0, end));
      received_.erase(0, end + 1);
    }
    if (received_.size() > kReceivedBytes) received_.clear();
  }
  return stop_;
}

void die_with_parent_if_job() {
  if (std::getenv(kVariable) == nullptr) return;
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A parent that died between the two calls sends nothing any more. One that died before the first is noticed by the
  // agent's supervisor, to whom its children fall.
  if (getppid() != parent) _exit(128 + SIGKILL);
}

}  // namespace foretime::jobs
