#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/limits.h"

namespace foretime::server {

/// A socket that cannot be listened on.
struct ListenError : ErrorOf<kComm> {
  using ErrorOf::ErrorOf;
};

/// A listening socket on this machine: a Unix socket, whose file goes with this object, or TCP on a loopback address.
class Listener {
 public:
  /// Only this user may connect. A socket that a server left behind, which nobody listens on, is replaced. Throws
  /// ListenError where the path is something else, is too long, or has a listener.
  static Listener on_path(const std::filesystem::path& path);
  /// `port` 0: one that is free. Throws ListenError; SettingsError for an address that is not of the loopback.
  static Listener on_loopback(const std::string& address, uint16_t port);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  /// From now on nobody can connect, and another server may listen here. The descriptor stays open.
  void refuse();

  int descriptor() const { return descriptor_; }
  bool is_tcp() const { return path_.empty(); }
  const std::string& name() const { return name_; }  // unix:/path, http://127.0.0.1:1234

 private:
  Listener(int descriptor, std::string name, std::filesystem::path path);
  void remove_file();

  int descriptor_ = -1;
  std::string name_;
  std::filesystem::path path_;  // of a Unix socket
  uint64_t inode_ = 0;          // of its file
};

struct HttpRequest {
  std::string method, path;  // decoded, without the query
  std::map<std::string, std::string> query;
  std::string content_type;                 // without parameters, in lower case; "" where not said
  std::string host, origin, authorization;  // headers as they were sent; "" where not said
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// Instead of a body: called again and again until it gives nothing more, and may wait, for as long as the client
  /// listens. It ends soon after `HttpServer::stop_accepting` was called, as its handler must see to.
  std::function<std::string()> stream = {};
};

/// An answer that is no success.
struct HttpError {
  int status = 500;
  const char* code = "internal";  // for programs: bad_input, busy, …
  std::string message;            // for people
};

/// {"error": {"code": …, "message": …}}
HttpResponse to_response(const HttpError& error);

/// Answers requests, several at once. What it throws becomes an answer: HttpError.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual HttpResponse answer(const HttpRequest& request) = 0;
  /// Before a body is read: throws HttpError where the request will not be answered whatever its body is.
  virtual void admit(const HttpRequest& request) = 0;
};

/// Serves HTTP/1.1 on listeners until it is stopped, a thread a connection. Bodies past the limits are refused without
/// being kept, and all bodies that are held at once have a limit, too. Started in a thread whose signals are blocked,
/// its threads leave signals alone.
class HttpServer {
 public:
  /// Throws ListenError where threads cannot be started.
  HttpServer(std::vector<Listener> listeners, HttpHandler& handler, const ServeLimits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::vector<Listener>& listeners() const;
  /// Takes no more connections, and closes each after its next answer.
  void stop_accepting();
  /// Requests whose head was read and whose answer is not sent.
  int64_t requests() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretime::server
