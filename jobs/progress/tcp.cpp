#include "jobs/progress/tcp.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr int kLargestPort = 65535, kWaitingPeers = 16;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses look_up(const std::string& host, int port, int type, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = type;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    why = gai_strerror(error);
  return Addresses(found);
}

int port_of(const std::string& text) {
  const int port = parse_number<int>(text).value_or(-1);
  return port >= 1 && port <= kLargestPort ? port : -1;
}

/// HOST and what follows its colon, or nothing.
std::pair<std::string, std::string> split_host(const std::string& text) {
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string::npos) return {};
    const auto rest = text.substr(end + 1);
    return {text.substr(1, end - 1), rest.starts_with(':') ? rest.substr(1) : ""};
  }
  const auto colon = text.find(':');
  if (colon == std::string::npos || text.find(':', colon + 1) != std::string::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::string numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST];
  return getnameinfo(address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0 ? host : "";
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost" || host.empty();
}

std::string joined(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace

ListenAddress parse_listen_address(const std::string& text) {
  const auto refuse = [&] {
    throw JobsError("--listen {}: expected auto, none, HOST, HOST:PORT or HOST:FIRST-LAST, such as 10.0.0.3:7400-7499",
                    printable(text));
  };
  const auto [host, ports] = split_host(text);
  ListenAddress address{.host = host};
  if (host.empty()) refuse();
  if (ports.empty()) {
    if (text.ends_with(':')) refuse();
    return address;
  }
  const auto dash = ports.find('-');
  address.first_port = port_of(ports.substr(0, dash));
  address.last_port = dash == std::string::npos ? address.first_port : port_of(ports.substr(dash + 1));
  if (address.first_port < 0 || address.last_port < address.first_port) refuse();
  return address;
}

std::string own_address(const std::string& other_host, int64_t other_port) {
  std::string ignored;
  if (!is_loopback(other_host)) {
    // Connecting a datagram socket sends nothing, and chooses the address.
    const auto list = look_up(other_host, other_port, SOCK_DGRAM, 0, ignored);
    for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
      const Descriptor probe(socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      sockaddr_storage own{};
      socklen_t size = sizeof(own);
      if (probe.get() < 0 || connect(probe.get(), each->ai_addr, each->ai_addrlen) != 0 ||
          getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
        continue;
      if (const auto found = numeric(reinterpret_cast<sockaddr*>(&own), size); !is_loopback(found)) return found;
    }
  }
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return "";
  std::string found;
  for (const ifaddrs* each = interfaces; each != nullptr && found.empty(); each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const auto address = numeric(each->ifa_addr, sizeof(sockaddr_in));
    if (!is_loopback(address)) found = address;
  }
  freeifaddrs(interfaces);
  return found;
}

Descriptor listen_tcp(const ListenAddress& listen_address, std::string& address) {
  std::string why;
  for (int port = listen_address.first_port; port <= listen_address.last_port; ++port) {
    const auto list = look_up(listen_address.host, port, SOCK_STREAM, AI_PASSIVE, why);
    for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
      Descriptor listener(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int on = 1;
      sockaddr_storage own{};
      socklen_t size = sizeof(own);
      if (listener.get() < 0 ||
          (port != 0 && setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) ||
          bind(listener.get(), each->ai_addr, each->ai_addrlen) != 0 || listen(listener.get(), kWaitingPeers) != 0 ||
          getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
        why = std::strerror(errno);
        continue;
      }
      const auto in = own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port
                                                : reinterpret_cast<const sockaddr_in*>(&own)->sin_port;
      address = joined(listen_address.host, ntohs(in));
      return listener;
    }
  }
  throw NodeError("--listen {}: cannot listen on a socket: {}", listen_address.host, why);
}

Descriptor connect_tcp(const std::string& address, double seconds, std::string& why) {
  const auto [host, port] = split_host(address);
  const auto list = look_up(host, std::max(0, port_of(port)), SOCK_STREAM, 0, why);
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    Descriptor peer(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (peer.get() < 0) continue;
    int error = connect(peer.get(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd wait{peer.get(), POLLOUT, 0};
      socklen_t size = sizeof(error);
      error = poll(&wait, 1, (seconds * 1e3)) == 1 && getsockopt(peer.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0
                  ? error
                  : ETIMEDOUT;
    }
    if (error == 0) {
      fcntl(peer.get(), F_SETFL, fcntl(peer.get(), F_GETFL) & ~O_NONBLOCK);
      watch_peer(peer.get());
      return peer;
    }
    why = std::strerror(error);
  }
  return Descriptor();
}

void watch_peer(int socket) {
  const int on = 1, idle = 10, interval = 5, probes = 3, milliseconds = 25'000;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

std::string token_line(const std::string& token) { return nlohmann::json{{"token", token}}.dump() + "\n"; }

bool is_token_line(const std::string& line, const std::string& token) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || token.empty()) return false;
  const auto found = json.find("token");
  if (found == json.end() || !found->is_string()) return false;
  const auto& said = found->get_ref<const std::string&>();
  return said.size() == token.size() && CRYPTO_memcmp(said.data(), token.data(), token.size()) == 0;
}

}  // namespace foretime::jobs
