#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "server/service.h"
#include "tests/fuzz/targets.h"
#include "tests/inference/small_models.h"

namespace foretime::fuzz {
namespace {

/// A server of this process, as programs beside it meet it.
struct Server {
  std::string path = "/tmp/foretime-fuzz-" + std::to_string(getpid());
  server::ServeLimits limits{.max_body = 1 << 16, .max_nodes = 1000, .idle_seconds = 20};
  server::Service service{std::make_shared<const inference::Model>(inference::testing::layout_bundle()), limits};
  server::HttpServer http{listeners(path), service, limits};

  static std::vector<server::Listener> listeners(const std::string& path) {
    std::vector<server::Listener> one;
    one.push_back(server::Listener::on_path(path));
    return one;
  }
};

}  // namespace

void run_http(std::string_view bytes) {
  // Never destroyed: its threads wait until the process ends.
  static const auto& server = *new Server;
  static const bool cleans = [] {
    std::atexit([] { unlink(("/tmp/foretime-fuzz-" + std::to_string(getpid())).c_str()); });
    return true;
  }();
  require(cleans, "the socket goes with the process", "");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  server.path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
          "a server listens", "");
  while (!bytes.empty()) {
    const auto sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;  // it has heard enough
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  ::shutdown(socket.get(), SHUT_WR);
  std::string answer;
  char piece[4096];
  for (;;) {
    pollfd ready = {socket.get(), POLLIN, 0};
    int found;
    do {
      found = ::poll(&ready, 1, 10'000);
    } while (found < 0 && errno == EINTR);  // libFuzzer's own clock
    require(found == 1, "a server answers or closes", "");
    const auto got = ::recv(socket.get(), piece, sizeof(piece), 0);
    if (got <= 0) break;
    answer.append(piece, static_cast<size_t>(got));
  }
  require(answer.empty() || answer.starts_with("HTTP/1."), "an answer is HTTP", answer.c_str());
  require(answer.find("HTTP/1.1 500") == std::string::npos, "nothing from outside is the server's fault",
          answer.c_str());
}

std::vector<std::string> http_seeds() {
  const std::string body = R"({"candidates": [{"layouts": {}}]})";
  const std::string length = std::to_string(body.size());
  return {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
          "GET /v1/model HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
          "POST /v1/graphs/0123456789abcdef/score?top=3 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Type: "
          "application/json\r\nContent-Length: " +
              length + "\r\n\r\n" + body + "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
          "POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
          "chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n",
          "POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\nOrigin: https://example.com\r\nSec-Fetch-Site: "
          "cross-site\r\nContent-Length: 0\r\n\r\n",
          "POST /v1/graphs HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 99999999999999999999\r\n\r\n",
          "HEAD /healthz HTTP/1.1\r\nHost: [::1]:80\r\nX: " + std::string(300, 'x') + "\r\n\r\n"};
}

}  // namespace foretime::fuzz
