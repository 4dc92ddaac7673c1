#include "jobs/progress/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <netdb.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/message.h"
#include "base/process.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr size_t kReceivedAtOnce = 1 << 20;  // then the other jobs have their turn

constexpr const char *kVariable = "FORETIME_PROGRESS", *kTcpVariable = "FORETIME_PROGRESS_TCP",
                     *kTokenVariable = "FORETIME_PROGRESS_TOKEN";
constexpr double kConnectSeconds = 10, kReconnectSeconds = 1, kReconnectInterval = 5, kReconnectLater = 60;
constexpr double kPatience = 1.0;          // seconds
constexpr size_t kPendingBytes = 1 << 20;  // an agent that is so far behind is taken for lost
constexpr size_t kReceivedBytes = 64 << 10;

}  // namespace

ProgressReceiver::ProgressReceiver(const std::filesystem::path& folder, const ListenAddress& listen_address,
                                   std::string token)
    : token_(std::move(token)) {
  if (!listen_address.host.empty()) tcp_listener_ = listen_tcp(listen_address, tcp_address_);
  if (listen_at((folder / "agent.sock").string())) return;
  std::string name = "/tmp/foretime-XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    throw NodeError("{}: cannot make a folder for the socket of a job: {}", name, std::strerror(errno));
  own_folder_ = name;
  if (listen_at(name + "/agent.sock")) return;
  const int error = errno;
  rmdir(name.c_str());
  throw NodeError("{}: cannot listen on the socket of a job: {}", path_, std::strerror(error));
}

ProgressReceiver::~ProgressReceiver() {
  unlink(path_.c_str());
  if (!own_folder_.empty()) rmdir(own_folder_.c_str());
}

bool ProgressReceiver::listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  path_ = path;
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = listener.get() >= 0 &&
                       bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                       chmod(path.c_str(), 0600) == 0 && listen(listener.get(), 4) == 0;
  const int error = errno;
  if (listens) listener_ = std::move(listener);
  listener = Descriptor();
  errno = error;
  return listens;
}

void ProgressReceiver::add_descriptors(std::vector<pollfd>& descriptors) const {
  descriptors.push_back({connected() ? peer_.get() : listener_.get(), POLLIN, 0});
  if (tcp_listener_.get() >= 0) descriptors.push_back({tcp_listener_.get(), POLLIN, 0});
  for (const auto& peer : unverified_) descriptors.push_back({peer.socket.get(), POLLIN, 0});
}

/// Accepts `peer` as the job.
void ProgressReceiver::accept_job(Descriptor peer) {
  peer_ = std::move(peer);
  splitter_ = LineSplitter(kProgressLine, false);
  if (!stop_.empty()) send(peer_.get(), stop_.data(), stop_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Reads from peers over TCP until one sends the token. A job that reconnects replaces its former connection.
void ProgressReceiver::accept_tcp_peers(const Complain& complain) {
  if (tcp_listener_.get() < 0) return;
  const auto send_away = [&](const UnverifiedPeer& peer, const char* why) {
    complain(fmt::format("a peer at {} {} and was disconnected", peer.from, why));
  };
  const double now = steady_seconds();
  for (size_t i = 0; i < 4 * kUnverifiedPeers; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    Descriptor socket(
        accept4(tcp_listener_.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) break;
    char host[NI_MAXHOST] = "?";
    getnameinfo(reinterpret_cast<sockaddr*>(&from), size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
    if (unverified_.size() >= kUnverifiedPeers) {
      send_away(unverified_.front(), "had said nothing");
      unverified_.pop_front();
    }
    unverified_.push_back({std::move(socket), host, "", now});
  }
  for (size_t i = 0; i < unverified_.size();) {
    auto& peer = unverified_[i];
    char buffer[kTokenLine];
    const auto got = recv(peer.socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    const bool nothing = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (got > 0) peer.received.append(buffer, got);
    const auto end = peer.received.find('\n');
    const bool over = end != std::string::npos;
    if (over && is_token_line(peer.received.substr(0, end), token_)) {
      watch_peer(peer.socket.get());
      after_token_ = peer.received.substr(end + 1);
      accept_job(std::move(peer.socket));
    } else if (over) {
      send_away(peer, "sent a wrong token");
    } else if (peer.received.size() >= kTokenLine) {
      send_away(peer, "sent too long a line in place of its token");
    } else if (got == 0 || (got < 0 && !nothing)) {
      send_away(peer, "left without a token");
    } else if (now - peer.since >= kTokenSeconds) {
      send_away(peer, "was too slow with its token");
    } else {
      ++i;
      continue;
    }
    unverified_.erase(unverified_.begin() + i);
  }
}

void ProgressReceiver::accept_peer(const Complain& complain) {
  while (!connected()) {
    Descriptor peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.get() < 0) return;
    ucred who{};
    socklen_t size = sizeof(who);
    if (getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid()) {
      complain(fmt::format("a process of user {} connected and was disconnected", who.uid));
      continue;
    }
    accept_job(std::move(peer));
  }
}

void ProgressReceiver::receive(const Take& take, const Complain& complain) {
  char buffer[16384];
  size_t total = 0;
  const auto feed = [&](std::string_view bytes) {
    splitter_.feed(bytes, [&](const std::string& line, bool cut) {
      try {
        if (cut) throw JobsError("progress message: more than {} bytes", kProgressLine);
        take(parse_progress_message(line));
      } catch (const JobsError& error) {
        complain(error.what());
      }
    });
  };
  accept_peer(complain);
  accept_tcp_peers(complain);
  if (!after_token_.empty()) feed(std::exchange(after_token_, ""));
  while (connected() && total < kReceivedAtOnce) {
    const auto got = TEMP_FAILURE_RETRY(recv(peer_.get(), buffer, sizeof(buffer), MSG_DONTWAIT));
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      peer_ = Descriptor();
      accept_peer(complain);
      continue;
    }
    total += got;
    feed(std::string_view(buffer, got));
  }
}

void ProgressReceiver::send_stop(const std::string& reason) {
  stop_ = stop_line(reason);
  // Whoever does not read it ends by SIGTERM.
  if (connected()) send(peer_.get(), stop_.data(), stop_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::unique_ptr<ProgressSender> ProgressSender::from_environment() {
  const char* path = std::getenv(kVariable);
  if (path == nullptr || *path == 0) return nullptr;
  const auto text_in = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr || std::strcmp(value, "none") == 0 ? "" : value);
  };
  const auto tcp = text_in(kTcpVariable), token = text_in(kTokenVariable);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string why = "longer than a socket's address";
  Descriptor descriptor;
  if (std::strlen(path) < sizeof(address.sun_path)) {
    std::strcpy(address.sun_path, path);
    descriptor = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (descriptor.get() < 0 ||
        connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      why = std::strerror(errno);
      descriptor = Descriptor();
    }
  }
  const bool far = descriptor.get() < 0 && !tcp.empty();
  if (far) descriptor = connect_tcp(tcp, kConnectSeconds, why);
  if (descriptor.get() < 0) {
    print_message("{}: {}: {}; progress is not sent\n", far ? kTcpVariable : kVariable, far ? tcp : path, why);
    return nullptr;
  }
  auto sender = std::make_unique<ProgressSender>(descriptor.release());
  if (far) {
    sender->tcp_address_ = tcp;
    sender->token_ = token;
    sender->pending_ = token_line(token);
  }
  ProgressMessage hello;
  hello.kind = ProgressMessage::Kind::hello;
  hello.pid = getpid();
  sender->send(hello);
  return sender;
}

ProgressSender::ProgressSender(int socket) : socket_(socket) {}
ProgressSender::~ProgressSender() { flush(kPatience); }

void ProgressSender::send(const ProgressMessage& message) {
  if (broken_ && !reconnect()) {
    // What is not sent is lost; but what the job's result depends on may yet be taken by an agent that is found again.
    if (tcp_address_.empty() || message.kind == ProgressMessage::Kind::progress) return;
  }
  const bool progress = message.kind == ProgressMessage::Kind::progress;
  if (progress) {
    // A line that was sent in part is finished before anything else.
    const bool has_values = !message.values.empty();
    const double now = steady_seconds(), last = has_values ? last_values_ : last_progress_;
    if (now - last < kProgressInterval || !flush(0)) return;
    last_progress_ = now;
    if (has_values) last_values_ = now;
  }
  try {
    pending_ += to_line(message);
  } catch (const JobsError& error) {
    print_message("a message was not sent to the agent: {}\n", error.what());
  }
  flush(progress ? 0 : kPatience);
  if (pending_.size() > kPendingBytes) {
    tcp_address_.clear();
    disconnect();
  }
}

void ProgressSender::disconnect() {
  broken_ = true;
  next_try_ = steady_seconds() + kReconnectInterval;
}

/// Reconnects from time to time after a network failure. A partly sent line is sent again.
bool ProgressSender::reconnect() {
  if (tcp_address_.empty() || steady_seconds() < next_try_) return false;
  std::string why;
  auto found = connect_tcp(tcp_address_, kReconnectSeconds, why);
  next_try_ = steady_seconds() + kReconnectLater;  // a host that does not answer takes a second each time
  if (found.get() < 0) return false;
  socket_ = std::move(found);
  if (const auto line = token_line(token_); !pending_.starts_with(line)) pending_.insert(0, line);
  sent_ = 0;
  received_.clear();
  broken_ = false;
  return true;
}

bool ProgressSender::flush(double patience_seconds) {
  const double limit = steady_seconds() + patience_seconds;
  while (!pending_.empty() && !broken_) {
    const auto sent =
        ::send(socket_.get(), pending_.data() + sent_, pending_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      sent_ += sent;
      const auto whole = sent_ == pending_.size() ? sent_ : pending_.rfind('\n', sent_ - 1) + 1;
      pending_.erase(0, whole);
      sent_ -= whole;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      disconnect();
      break;
    }
    const double left = limit - steady_seconds();
    if (left <= 0) return false;
    pollfd wait{socket_.get(), POLLOUT, 0};
    poll(&wait, 1, std::max(1.0, left * 1e3));
  }
  return pending_.empty();
}

bool ProgressSender::stop_requested() {
  std::array<char, 4096> buffer{};
  if (broken_ && reconnect()) flush(0);
  while (!stop_ && !broken_) {
    const auto got = TEMP_FAILURE_RETRY(recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT));
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      disconnect();
      break;
    }
    received_.append(buffer.data(), got);
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
  // The parent may have died between the two calls. The agent's supervisor notices one that died before.
  if (getppid() != parent) _exit(128 + SIGKILL);
}

}  // namespace foretime::jobs
