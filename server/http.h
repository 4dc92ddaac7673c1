#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/limits.h"
#include "server/listener.h"

namespace foretime::server {

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
