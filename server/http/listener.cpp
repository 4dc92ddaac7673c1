#include "server/http/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "configs/load.h"

namespace foretime::server {
namespace {

/// Connections that wait while the server is busy: a full queue refuses on a Unix socket.
constexpr int kBacklog = SOMAXCONN;

[[noreturn]] void fail(const std::string& name) {
  throw ListenError("{}: cannot listen: {}", name, std::strerror(errno));
}

/// Addresses of sockets, as the calls of sockets take them.
template <class Address>
const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Descriptor open_socket(int family, const std::string& name) {
  Descriptor opened(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (opened.get() < 0) fail(name);
  return opened;
}

/// Makes way for a socket: nothing is there, or a socket that nobody listens on.
void clear(const std::filesystem::path& path, const sockaddr_un& address, const std::string& name) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) fail(name);
    return;
  }
  if (!S_ISSOCK(status.st_mode)) throw ListenError("{}: exists and is not a socket; give another path", name);
  const auto probe = open_socket(AF_UNIX, name);
  if (::connect(probe.get(), generic(address), sizeof(address)) == 0)
    throw ListenError("{}: another server listens there", name);
  if (errno != ECONNREFUSED) fail(name);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail(name);
}

uint64_t inode_of(const std::filesystem::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Servers that start at once look at a path one after another.
Descriptor lock_folder(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() >= 0) ::flock(opened.get(), LOCK_EX);
  return opened;
}

}  // namespace

Listener::Listener(int descriptor, std::string name, std::filesystem::path path)
    : descriptor_(descriptor), name_(std::move(name)), path_(std::move(path)), inode_(inode_of(path_)) {}

Listener Listener::on_path(const std::filesystem::path& path) {
  const std::string name = "unix:" + path.string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto& text = path.native();
  if (text.empty() || text.size() >= sizeof(address.sun_path))
    throw ListenError("{}: found {} bytes, expected a path of 1 to {}", name, text.size(),
                      sizeof(address.sun_path) - 1);
  std::copy(text.begin(), text.end(), address.sun_path);
  const auto lock = lock_folder(path);
  clear(path, address, name);
  auto opened = open_socket(AF_UNIX, name);
  const mode_t mask = ::umask(S_IRWXG | S_IRWXO);  // the socket is private from its creation
  const int bound = ::bind(opened.get(), generic(address), sizeof(address));
  ::umask(mask);
  if (bound != 0 || ::listen(opened.get(), kBacklog) != 0) fail(name);
  return {opened.release(), name, path};
}

Listener Listener::on_loopback(const std::string& address, uint16_t port) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  in_addr four{};
  in6_addr six{};
  bool loopback = false;
  if (::inet_pton(AF_INET, address.c_str(), &four) == 1) {
    auto& to = reinterpret_cast<sockaddr_in&>(storage);
    to.sin_family = AF_INET;
    to.sin_addr = four;
    to.sin_port = htons(port);
    size = sizeof(to);
    loopback = (ntohl(four.s_addr) >> 24) == IN_LOOPBACKNET;
  } else if (::inet_pton(AF_INET6, address.c_str(), &six) == 1) {
    auto& to = reinterpret_cast<sockaddr_in6&>(storage);
    to.sin6_family = AF_INET6;
    to.sin6_addr = six;
    to.sin6_port = htons(port);
    size = sizeof(to);
    loopback = IN6_IS_ADDR_LOOPBACK(&six);
  }
  if (!loopback)
    throw configs::SettingsError(
        "--address: {}: expected a loopback address, 127.0.0.1 or ::1: "
        "the server has no user accounts and only serves this machine",
        address);
  const auto name_of = [&](int number) {
    return storage.ss_family == AF_INET6 ? fmt::format("http://[{}]:{}", address, number)
                                         : fmt::format("http://{}:{}", address, number);
  };
  auto opened = open_socket(storage.ss_family, name_of(port));
  const int on = 1;
  ::setsockopt(opened.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(opened.get(), generic(storage), size) != 0 || ::listen(opened.get(), kBacklog) != 0) fail(name_of(port));
  if (::getsockname(opened.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) fail(name_of(port));
  const int number = ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                                                         : reinterpret_cast<sockaddr_in&>(storage).sin_port);
  return {opened.release(), name_of(number), {}};
}

Listener::Listener(Listener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      path_(std::exchange(other.path_, {})),
      inode_(other.inode_) {}

Listener::~Listener() {
  if (descriptor_ < 0) return;
  remove_file();
  ::close(descriptor_);
}

void Listener::refuse() {
  remove_file();
  ::shutdown(descriptor_, SHUT_RDWR);
}

/// The file may be another server's by now.
void Listener::remove_file() {
  if (inode_ != 0 && inode_of(path_) == inode_) ::unlink(path_.c_str());
  inode_ = 0;
}

}  // namespace foretime::server
