#include "server/connections.h"

#include <algorithm>
#include <map>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/descriptor.h"

namespace foretime::server {
namespace {

constexpr std::chrono::milliseconds kLook{100};

/// Who is at the other end: a process of a Unix socket, an address of TCP.
std::string peer_of(int descriptor) {
  ucred process{};
  socklen_t size = sizeof(process);
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(address).sin_addr, text, sizeof(text));
  } else if (address.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6&>(address).sin6_addr, text, sizeof(text));
  } else if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &process, &size) == 0) {
    return fmt::format("process {}", process.pid);
  }
  return text;
}

}  // namespace

Connections::Connections(size_t most, Clock::duration limit) : most_(most), limit_(limit) {
  const BlockedSignals blocked;
  watching_ = std::thread([this] { watch(); });
}

Connections::~Connections() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  watching_.join();
}

Connections::Handle Connections::opened(int descriptor) {
  auto peer = peer_of(descriptor);
  const std::lock_guard lock(mutex_);
  all_.push_back({.descriptor = descriptor, .peer = std::move(peer), .since = Clock::now()});
  make_room(all_.back());
  return std::prev(all_.end());
}

void Connections::closed(Handle connection) {
  const std::lock_guard lock(mutex_);
  all_.erase(connection);
}

void Connections::enter(Handle connection, Phase phase) {
  const std::lock_guard lock(mutex_);
  connection->phase = phase;
  connection->since = Clock::now();
  if (draining_ && phase == Phase::sends_head) shut(*connection);
}

void Connections::drain(Clock::duration grace) {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  drained_at_ = Clock::now() + grace;
  for (auto& each : all_)
    if (each.phase == Phase::sends_head) shut(each);
}

/// Shuts a connection down: its thread gets the end of the stream or an error from any call.
void Connections::shut(Connection& connection) {
  if (std::exchange(connection.shut, true)) return;
  ::shutdown(connection.descriptor, SHUT_RDWR);
}

void Connections::make_room(const Connection& newest) {
  std::map<std::string, size_t> of_peer;
  size_t open = 0;
  for (const auto& each : all_) {
    if (each.shut) continue;
    ++open;
    if (each.phase != Phase::is_answered && &each != &newest) ++of_peer[each.peer];
  }
  if (open <= most_ || of_peer.empty()) return;
  const auto busiest = std::ranges::max_element(of_peer, {}, [](const auto& peer) { return peer.second; });
  Connection* oldest = nullptr;
  for (auto& each : all_) {
    if (each.shut || each.phase == Phase::is_answered || &each == &newest || each.peer != busiest->first) continue;
    if (oldest == nullptr || each.since < oldest->since) oldest = &each;
  }
  shut(*oldest);
}

void Connections::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return ended_; })) {
    const auto now = Clock::now();
    for (auto& each : all_) {
      if (each.phase == Phase::is_answered) continue;
      const bool late = now - each.since > limit_;
      const bool sends = each.phase != Phase::takes_answer;
      if (late || (draining_ && sends && now > drained_at_)) shut(each);
    }
  }
}

}  // namespace foretime::server
