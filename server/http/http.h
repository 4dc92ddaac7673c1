#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/limits.h"
#include "server/http/listener.h"

namespace foretime::server {

/// Holds a request.
struct HttpRequest {
  std::string method, path;  // path: decoded, without the query
  std::map<std::string, std::string> query;
  std::string content_type;                 // no parameters, lower case; "" if missing
  std::string host, origin, authorization;  // headers as sent; "" if missing
  std::string body;
};

/// Holds the answer to a request.
struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// Replaces the body: called repeatedly until it returns an empty text; may block while the client listens. Must end
  /// soon after `HttpServer::stop_accepting` was called.
  std::function<std::string()> stream = {};
};

/// Thrown for an answer that reports an error.
struct HttpError {
  int status = 500;
  const char* code = "internal";  // code for programs: bad_input, busy, …
  std::string message;            // text for people
};

/// Returns {"error": {"code": …, "message": …}}.
HttpResponse to_response(const HttpError& error);

/// Answers requests, several at once. A thrown HttpError becomes an answer.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual HttpResponse answer(const HttpRequest& request) = 0;
  /// Checks a request before its body is read. Throws HttpError if the request will be refused for any body.
  virtual void admit(const HttpRequest& request) = 0;
};

/// Serves HTTP/1.1 on listeners until it is stopped, with a thread for each connection. Bodies above the limit are
/// refused without being stored, and the sum of all bodies in memory is limited, too. If started in a thread whose
/// signals are blocked, its threads do not receive signals.
class HttpServer {
 public:
  /// Starts serving. Throws ListenError if threads cannot be started.
  HttpServer(std::vector<Listener> listeners, HttpHandler& handler, const ServeLimits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::vector<Listener>& listeners() const;
  /// Stops accepting connections, and closes each after its next answer.
  void stop_accepting();
  /// Returns the number of requests that were received completely and are not answered.
  int64_t requests() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretime::server
