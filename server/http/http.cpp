#include "server/http/http.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "base/text.h"

namespace foretime::server {
namespace {

constexpr size_t kConnectionMemory = size_t{64} << 10;  // request line, headers, and a piece of the body
constexpr size_t kThreadStack = size_t{2} << 20;
constexpr size_t kStreamBlock = size_t{16} << 10;
constexpr size_t kPadding = 64;             // behind a body, for who parses JSON
constexpr unsigned kSpareConnections = 32;  // beyond those that score or wait: they are told so

/// Bytes of all bodies that are held.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t bytes) : left_(bytes) {}
  bool take(int64_t bytes) {
    if (left_.fetch_sub(bytes) >= bytes) return true;
    left_.fetch_add(bytes);
    return false;
  }
  void give(int64_t bytes) { left_.fetch_add(bytes); }

 private:
  std::atomic<int64_t> left_;
};

HttpError too_large(int64_t most) {
  return {413, "too_large", "a body of more than " + std::to_string(most) + " bytes, which is the limit (--max-body)"};
}

HttpResponse answer(HttpHandler& handler, const HttpRequest& request) noexcept {
  try {
    return handler.answer(request);
  } catch (const HttpError& error) {
    return to_response(error);
  } catch (const std::bad_alloc&) {
    return to_response({503, "out_of_memory", "not enough memory for this request"});
  } catch (const std::exception& error) {
    return to_response({500, "internal", error.what()});
  }
}

const char* header(MHD_Connection* connection, const char* name) {
  return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

std::string media_type(const char* text) {
  auto type = lower_case(text == nullptr ? "" : text);
  type.resize(std::min(type.size(), type.find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  return type;
}

MHD_Result add_argument(void* query, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[key] = value == nullptr ? "" : value;
  return MHD_YES;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) { return lower_case(a) == lower_case(b); }

/// Counts the headers that say where a request ends and whom it is for.
struct FramingHeaders {
  int content_lengths = 0, transfer_encodings = 0, hosts = 0;
  std::string malformed_name{}, transfer_encoding{}, content_length{};

  static MHD_Result add(void* self, MHD_ValueKind, const char* key, const char* text) {
    auto& headers = *static_cast<FramingHeaders*>(self);
    const std::string_view name = key, value = text == nullptr ? "" : text;
    // A proxy may read `Content-Length : 5` as a length while libmicrohttpd reads another name (RFC 9112, 5.1).
    const bool is_token = !name.empty() && has_only_letters_digits_and("!#$%&'*+-.^_`|~", name);
    if (!is_token) headers.malformed_name = name;
    if (equal_ignoring_case(name, MHD_HTTP_HEADER_HOST)) ++headers.hosts;
    if (equal_ignoring_case(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
      ++headers.content_lengths;
      headers.content_length = value;
    }
    if (equal_ignoring_case(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
      ++headers.transfer_encodings;
      headers.transfer_encoding = value;
    }
    return MHD_YES;
  }
};

/// Refuses a request whose end or whose host two readers could understand differently, because a proxy in front could
/// then be made to pass on a hidden second request (RFC 9112, sections 3.2, 5.1, 6.1 and 6.3).
void refuse_ambiguous_framing(MHD_Connection* connection, std::string_view version) {
  FramingHeaders headers;
  MHD_get_connection_values(connection, MHD_HEADER_KIND, FramingHeaders::add, &headers);
  const auto refuse = [](std::string what) { throw HttpError{400, "bad_request", std::move(what)}; };
  if (!headers.malformed_name.empty()) refuse("found a header name with a forbidden character");
  if (headers.hosts > 1 || (headers.hosts == 0 && version == MHD_HTTP_VERSION_1_1))
    refuse("found " + std::to_string(headers.hosts) + " Host headers, expected one");
  if (headers.content_lengths + headers.transfer_encodings > 1)
    refuse("more than one Content-Length or Transfer-Encoding header, expected one of them");
  const auto& length = headers.content_length;
  if (headers.content_lengths == 1 && (length.empty() || !std::ranges::all_of(length, is_digit)))
    refuse("Content-Length: expected only digits");
  if (headers.transfer_encodings == 1 &&
      (version != MHD_HTTP_VERSION_1_1 || !equal_ignoring_case(headers.transfer_encoding, "chunked")))
    refuse("Transfer-Encoding: expected chunked, in HTTP/1.1");
}

/// Returns whether a host, with or without a port, is this machine.
bool is_local(std::string_view name) {
  if (name.starts_with('[')) return name == "[::1]" || name.starts_with("[::1]:");
  name = name.substr(0, name.rfind(':'));
  if (name.empty() || name == "localhost") return true;
  in_addr four{};  // 127.example.com is no address
  return ::inet_pton(AF_INET, std::string(name).c_str(), &four) == 1 &&
         (ntohl(four.s_addr) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET;
}

/// Refuses what a web page of another site has sent. Pages that had their own name point here name another host; pages
/// that send to this machine's name say where they come from.
void refuse_foreign(MHD_Connection* connection, const std::string& method) {
  const char* host = header(connection, MHD_HTTP_HEADER_HOST);
  if (host != nullptr && !is_local(host)) throw HttpError{421, "wrong_host", "the Host header is not of this machine"};
  if (method == "GET" || method == "HEAD")
    return;  // GET and HEAD change nothing, and browsers hide their answers from foreign pages
  const char* site = header(connection, "Sec-Fetch-Site");
  std::string_view origin =
      header(connection, MHD_HTTP_HEADER_ORIGIN) == nullptr ? "" : header(connection, MHD_HTTP_HEADER_ORIGIN);
  const bool foreign_site = site != nullptr && std::string_view(site) == "cross-site";
  bool foreign_origin = false;
  if (!origin.empty()) {
    const auto scheme = origin.find("://");  // "null" has none
    foreign_origin =
        scheme == std::string_view::npos || scheme + 3 == origin.size() || !is_local(origin.substr(scheme + 3));
  }
  if (foreign_site || foreign_origin)
    throw HttpError{403, "foreign_origin", "a page of another site sent this request; only pages of this machine may"};
}

}  // namespace

HttpResponse to_response(const HttpError& error) {
  const nlohmann::json body = {{"error", {{"code", error.code}, {"message", error.message}}}};
  return {error.status, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

struct HttpServer::State {
  State(std::vector<Listener> sockets, HttpHandler& handler_, const ServeLimits& limits_)
      : listeners(std::move(sockets)), handler(handler_), limits(limits_), budget(limits.bodies * limits.max_body) {}

  /// One request, from its head to the end of its answer.
  struct Request {
    explicit Request(State& server_) : server(server_) {}
    ~Request() {
      server.budget.give(held);
      if (received) --server.requests;
    }
    bool hold(int64_t bytes) {
      if (!server.budget.take(bytes)) return false;
      held += bytes;
      return true;
    }

    State& server;
    HttpRequest request;
    int64_t expected = 0;            // bytes of the body, as its head says
    int64_t held = 0;                // bytes taken of the budget
    int64_t dropped = 0;             // bytes of a body that is refused
    bool received = false;           // the body is complete
    std::optional<HttpError> error;  // answer once the body has been read
  };

  MHD_Result begin(MHD_Connection* connection, const char* url, const char* method, const char* version, void** place) {
    auto owned = std::make_unique<Request>(*this);
    auto& request = owned->request;
    *place = owned.release();  // `completed` takes it back
    auto& kept = *static_cast<Request*>(*place);
    request.method = method;
    request.path = url;
    request.content_type = media_type(header(connection, MHD_HTTP_HEADER_CONTENT_TYPE));
    const auto text = [&](const char* name) {
      return std::string(header(connection, name) == nullptr ? "" : header(connection, name));
    };
    request.host = text(MHD_HTTP_HEADER_HOST);
    request.origin = text(MHD_HTTP_HEADER_ORIGIN);
    request.authorization = text(MHD_HTTP_HEADER_AUTHORIZATION);
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_argument, &request.query);
    try {
      refuse_ambiguous_framing(connection, version);
      const char* length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
      const int64_t bytes = length == nullptr ? 0 : parse_number<int64_t>(length).value_or(INT64_MAX);
      if (bytes > limits.max_body) throw too_large(limits.max_body);
      try {
        refuse_foreign(connection, request.method);
        handler.admit(request);
        kept.expected = bytes;
      } catch (const HttpError& error) {
        // A client that is still sending would lose the answer with the connection, unless it waits to be told.
        if (bytes == 0 || header(connection, MHD_HTTP_HEADER_EXPECT) != nullptr) throw;
        kept.error = error;
      }
    } catch (const HttpError& error) {
      return send(connection, to_response(error), /*close=*/true);
    }
    return MHD_YES;
  }

  /// A piece of the body. What is refused is dropped up to the limit once more, so that the client can read why.
  bool take(Request& request, const char* bytes, size_t size) {
    auto& body = request.request.body;
    const int64_t total = body.size() + size;
    if (!request.error && total > limits.max_body) request.error = too_large(limits.max_body);
    if (!request.error && total > request.held && !request.hold(total - request.held))
      request.error = HttpError{503, "busy", "the bodies of other requests take all memory for bodies; try again"};
    if (request.error) {
      body = {};
      request.dropped += size;
      return request.dropped <= limits.max_body;
    }
    if (body.empty()) body.reserve(request.expected + kPadding);
    body.append(bytes, size);
    return true;
  }

  MHD_Result finish(MHD_Connection* connection, Request& request) {
    request.received = true;
    ++requests;
    const auto response = request.error ? to_response(*request.error) : answer(handler, request.request);
    request.request.body = {};
    budget.give(std::exchange(request.held, 0));
    return send(connection, response, /*close=*/stopping || request.error);
  }

  /// Holds the text of a stream that its client has not received yet.
  struct Stream {
    std::function<std::string()> next;
    std::string said;
  };

  static ssize_t on_stream(void* self, uint64_t /*position*/, char* buffer, size_t most) {
    auto& stream = *static_cast<Stream*>(self);
    try {
      if (stream.said.empty()) stream.said = stream.next();
    } catch (...) {
      return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (stream.said.empty()) return MHD_CONTENT_READER_END_OF_STREAM;
    const auto size = stream.said.copy(buffer, most);
    stream.said.erase(0, size);
    return size;
  }

  static MHD_Response* response_of(const HttpResponse& answer) {
    if (!answer.stream)
      return MHD_create_response_from_buffer(answer.body.size(), const_cast<char*>(answer.body.data()),
                                             MHD_RESPMEM_MUST_COPY);
    auto stream = std::make_unique<Stream>(Stream{answer.stream, ""});
    auto* response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlock, on_stream, stream.get(),
                                                       [](void* self) { delete static_cast<Stream*>(self); });
    if (response != nullptr) stream.release();
    return response;
  }

  MHD_Result send(MHD_Connection* connection, const HttpResponse& answer, bool close) {
    auto* response = response_of(answer);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type.c_str());
    for (const auto& [name, value] : answer.headers) MHD_add_response_header(response, name.c_str(), value.c_str());
    if (answer.status == 503) MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (close) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    const auto sent = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return sent;
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method,
                               const char* version, const char* upload, size_t* upload_size, void** place) {
    auto& state = *static_cast<State*>(self);
    try {
      if (*place == nullptr) return state.begin(connection, url, method, version, place);
      auto& request = *static_cast<Request*>(*place);
      if (*upload_size == 0) return state.finish(connection, request);
      const bool goes_on = state.take(request, upload, *upload_size);
      *upload_size = 0;
      return goes_on ? MHD_YES : MHD_NO;
    } catch (...) {  // no memory for the request itself
      return MHD_NO;
    }
  }

  static void on_completed(void* /*self*/, MHD_Connection*, void** place, MHD_RequestTerminationCode) {
    delete static_cast<Request*>(std::exchange(*place, nullptr));
  }

  struct Stop {
    void operator()(MHD_Daemon* daemon) const {
      MHD_quiesce_daemon(daemon);  // else it would close our socket
      MHD_stop_daemon(daemon);
    }
  };

  std::vector<Listener> listeners;
  HttpHandler& handler;
  const ServeLimits limits;
  BodyBudget budget;
  std::atomic<int64_t> requests{0};
  std::atomic<bool> stopping{false};
  std::vector<std::unique_ptr<MHD_Daemon, Stop>> daemons;  // stopped before all that they use
};

HttpServer::HttpServer(std::vector<Listener> listeners, HttpHandler& handler, const ServeLimits& limits)
    : state_(std::make_unique<State>(std::move(listeners), handler, limits)) {
  const unsigned connections = limits.max_concurrent + limits.max_queue + kSpareConnections;
  for (const auto& listener : state_->listeners) {
    auto* daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_ITC, 0, nullptr, nullptr,
        &State::on_request, state_.get(), MHD_OPTION_LISTEN_SOCKET, listener.descriptor(), MHD_OPTION_NOTIFY_COMPLETED,
        &State::on_completed, state_.get(), MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory, MHD_OPTION_CONNECTION_TIMEOUT,
        static_cast<unsigned>(limits.idle_seconds), MHD_OPTION_THREAD_STACK_SIZE, kThreadStack, MHD_OPTION_END);
    if (daemon == nullptr)
      throw ListenError(listener.name() +
                        ": cannot start the HTTP server: no more threads, file descriptors or memory");
    state_->daemons.emplace_back(daemon);
  }
}

HttpServer::~HttpServer() = default;

const std::vector<Listener>& HttpServer::listeners() const { return state_->listeners; }

void HttpServer::stop_accepting() {
  state_->stopping = true;
  for (const auto& daemon : state_->daemons) MHD_quiesce_daemon(daemon.get());
  for (auto& listener : state_->listeners) listener.refuse();
}

int64_t HttpServer::requests() const { return state_->requests; }

}  // namespace foretime::server
