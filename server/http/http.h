#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/no_copy.h"
#include "server/http/limits.h"
#include "server/http/listener.h"

namespace foretime::server {

/// Holds a request. Its body is empty in HttpHandler::admit.
struct HttpRequest {
  std::string method;                        // such as GET
  std::string path;                          // decoded, without the query
  std::map<std::string, std::string> query;  // decoded; the last of equal names
  std::string content_type;                  // media type in lower case, without parameters; "" if missing
  std::string host, origin, authorization;   // headers as they were sent; "" if missing
  std::string body;
};

/// Holds the answer to a request.
struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// If set, replaces the body: it is called repeatedly, and its texts are sent until it returns "". It may block while
  /// the client listens, but must end soon after `HttpServer::stop_accepting`.
  std::function<std::string()> stream = {};
};

/// Thrown to answer a request with an error.
struct HttpError {
  int status = 500;
  const char* code = "internal";  // word for programs, such as bad_input or busy
  std::string message;            // text for people
};

/// Returns the answer {"error": {"code": …, "message": …}} with the error's status.
HttpResponse to_response(const HttpError& error);

/// Answers requests, several at the same time.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Answers a request. HttpError becomes the answer, std::bad_alloc status 503, any other std::exception status 500.
  virtual HttpResponse answer(const HttpRequest& request) = 0;
  /// Checks a request before its body is read. Throws HttpError if the request would be refused with any body.
  virtual void admit(const HttpRequest& request) = 0;
};

/// Serves HTTP/1.1 on listeners until it is destroyed, with a thread for each connection. Refuses requests for other
/// hosts and changes by web pages of other sites. Refuses bodies above limits.max_body (status 413), and those that
/// would exceed limits.bodies times max_body for all requests together (503). Its threads inherit blocked signals.
class HttpServer : NoCopy {
 public:
  /// Starts serving. `handler` must outlive this object. Throws ListenError if threads,
  /// descriptors or memory do not suffice.
  HttpServer(std::vector<Listener> listeners, HttpHandler& handler, const ServeLimits& limits);
  ~HttpServer();

  const std::vector<Listener>& listeners() const;
  /// Accepts no more connections. An open connection is closed after the answer to its running or next request.
  void stop_accepting();
  /// Returns the number of requests whose body has been received and whose answer has not been sent.
  int64_t requests() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretime::server
