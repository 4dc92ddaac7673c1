#include "jobs/progress/receiver.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr size_t kReceivedAtOnce = 1 << 20;  // then the other jobs have their turn

}  // namespace

ProgressReceiver::ProgressReceiver(const std::filesystem::path& folder) {
  if (listen_at((folder / "agent.sock").string())) return;
  std::string name = "/tmp/foretime-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw JobsError(fmt::format("{}: {}", name, std::strerror(errno)));
  own_folder_ = name;
  if (listen_at(name + "/agent.sock")) return;
  const int error = errno;
  rmdir(name.c_str());
  throw JobsError(fmt::format("{}: no socket can listen there: {}", path_, std::strerror(error)));
}

ProgressReceiver::~ProgressReceiver() {
  hang_up();
  if (listener_ >= 0) close(listener_);
  unlink(path_.c_str());
  if (!own_folder_.empty()) rmdir(own_folder_.c_str());
}

bool ProgressReceiver::listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  path_ = path;
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ >= 0 && bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      chmod(path.c_str(), 0600) == 0 && listen(listener_, 4) == 0)
    return true;
  const int error = errno;
  if (listener_ >= 0) close(listener_);
  listener_ = -1;
  errno = error;
  return false;
}

void ProgressReceiver::add_descriptors(std::vector<pollfd>& descriptors) const {
  descriptors.push_back({peer_ >= 0 ? peer_ : listener_, POLLIN, 0});
}

void ProgressReceiver::accept_peer(const Complain& complain) {
  while (peer_ < 0) {
    const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer < 0) return;
    ucred who{};
    socklen_t size = sizeof(who);
    if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid()) {
      complain(fmt::format("a process of user {} connected and was sent away", who.uid));
      close(peer);
      continue;
    }
    peer_ = peer;
    splitter_ = LineSplitter(kProgressLine, false);
    if (!stop_.empty()) send(peer_, stop_.data(), stop_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void ProgressReceiver::receive(const Take& take, const Complain& complain) {
  char buffer[16384];
  size_t total = 0;
  accept_peer(complain);
  while (peer_ >= 0 && total < kReceivedAtOnce) {
    const auto got = recv(peer_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      hang_up();
      accept_peer(complain);
      continue;
    }
    total += static_cast<size_t>(got);
    splitter_.feed({buffer, static_cast<size_t>(got)}, [&](const std::string& line, bool cut) {
      try {
        if (cut) throw JobsError(fmt::format("progress message: more than {} bytes", kProgressLine));
        take(parse_progress_message(line));
      } catch (const JobsError& error) {
        complain(error.what());
      }
    });
  }
}

void ProgressReceiver::send_stop(const std::string& reason) {
  stop_ = stop_line(reason);
  // Whoever does not read it ends by SIGTERM.
  if (peer_ >= 0) send(peer_, stop_.data(), stop_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ProgressReceiver::hang_up() {
  if (peer_ >= 0) close(peer_);
  peer_ = -1;
}

}  // namespace foretime::jobs
