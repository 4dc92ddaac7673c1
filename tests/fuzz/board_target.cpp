#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/board/board_service.h"
#include "cli/board/queue_api.h"
#include "server/http/http.h"
#include "tests/fuzz/made_up_redis.h"
#include "tests/fuzz/targets.h"

namespace foretime::cli {

/// The pages are not part of this program.
const Asset kAssets[] = {{"/index.html", "text/html", "<title>board</title>"}, {nullptr, nullptr, nullptr}};

}  // namespace foretime::cli

namespace foretime::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBoardToken = "TOKEN";
constexpr const char* kBoardPaths[] = {
    "/api/board",    "/api/queue",  "/api/agents", "/api/activity",   "/api/sweep", "/api/sweep",
    "/api/overview", "/api/curves", "/api/job",    "/api/log",        "/api/runs",  "/api/run",
    "/api/rankings", "/api/file",   "/api/live",   "/api/trials.csv", "/api/act",   "/api/act",
    "/sweep/0123",   "/index.html", "/api/",       "/api/experiment"};
constexpr const char* kQueryKeys[] = {"id",    "id",   "name", "name",  "file",   "path",    "paths",     "sort",
                                      "state", "from", "to",   "limit", "search", "minutes", "descending"};
constexpr const char* kQueryValues[] = {"0123456789abcdef",
                                        "01",
                                        "run",
                                        "run",
                                        ".",
                                        "..",
                                        "../private",
                                        "none",
                                        "config.yaml",
                                        "metrics.jsonl",
                                        "trace.json",
                                        "0",
                                        "1",
                                        "-1",
                                        "500",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "objective",
                                        "trial",
                                        "state",
                                        "model.hidden",
                                        "succeeded",
                                        "/api/queue",
                                        "/api/sweep?id=01&sort=objective&limit=3\n/api/log?id=%30%31",
                                        "/api/live?path=/api/queue",
                                        "/api/run?name=run\n/api/run?name=%2e%2e/private"};
constexpr const char* kActions[] = {R"({"action": "cancel", "id": "01"})",
                                    R"({"action": "pause"})",
                                    R"({"action": "resume", "id": ""})",
                                    R"({"action": "retry", "id": "01"})",
                                    R"({"action": "priority", "id": "01", "priority": 5})",
                                    R"({"action": "priority", "id": "01", "priority": 1e300})",
                                    R"({"action": ["cancel"], "id": 1})",
                                    "[]",
                                    "null",
                                    ""};

/// A run with a file of each kind beside a private folder, made once for a process.
const fs::path& runs() {
  static const struct Made {
    fs::path root = fs::temp_directory_path() / ("foretime-fuzz-board-" + std::to_string(::getpid()));
    fs::path folder = root / "runs";
    Made() {
      fs::create_directories(folder / "run");
      fs::create_directories(root / "private");
      std::ofstream(root / "private/config.yaml") << "SECRET-OF-THE-OWNER";
      std::ofstream(folder / "run/config.yaml") << "model: {type: gcn}\n";
      std::ofstream(folder / "run/metrics.jsonl") << R"({"kind":"train","step":1,"loss":0.5})"
                                                  << "\n";
      std::ofstream(folder / "run/trace.json")
          << R"({"traceEvents":[{"ph":"X","pid":0,"tid":0,"name":"step","ts":1,"dur":2}]})";
    }
    ~Made() { fs::remove_all(root); }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
  } made;
  return made.folder;
}

server::HttpRequest request_of(Choices& choices) {
  server::HttpRequest request;
  request.method = choices.below(6) == 0 ? "POST" : "GET";
  request.path =
      choices.below(20) == 0 ? "/api/" + std::string(choices.take(choices.below(20))) : choices.of(kBoardPaths);
  for (size_t count = choices.below(5); count > 0; --count) {
    const std::string key = choices.of(kQueryKeys);
    request.query[key] =
        choices.below(3) == 0 ? std::string(choices.take(choices.below(40))) : choices.of(kQueryValues);
  }
  request.host = "localhost:8080";
  if (choices.below(8) != 0) request.authorization = std::string("Bearer ") + kBoardToken;
  if (request.method == "POST") {
    request.path = choices.below(6) == 0 ? request.path : "/api/act";
    request.content_type = choices.below(8) == 0 ? "text/plain" : "application/json";
    request.body = choices.flag() ? choices.of(kActions) : std::string(choices.take(choices.below(80)));
    if (choices.below(8) == 0) request.origin = "http://example.com";
  }
  return request;
}

void check(const server::HttpRequest& request, const server::HttpResponse& response) {
  require(response.status != 500, "nothing from outside is the board's fault", response.body.c_str());
  require(response.body.find("SECRET-OF-THE-OWNER") == std::string::npos, "the board shows nothing outside of its runs",
          request.path.c_str());
  if (response.content_type == "application/json")
    require(nlohmann::json::accept(response.body), "an answer is JSON", response.body.c_str());
  require(request.authorization == std::string("Bearer ") + kBoardToken || response.status != 200 ||
              !request.path.starts_with("/api/"),
          "whoever has no token reads nothing", request.path.c_str());
}

server::HttpResponse answer(cli::BoardService& board, const server::HttpRequest& request) {
  try {
    board.admit(request);
    return board.answer(request);
  } catch (const server::HttpError& error) {
    return server::to_response(error);
  }
}

}  // namespace

void run_board(std::string_view bytes) {
  Choices choices(bytes);
  auto client = std::make_unique<jobs::RedisClient>(jobs::RedisUrl{});
  client->connect_by([&](const jobs::RedisUrl&) { return std::make_unique<MadeUpRedis>(choices); });
  const bool has_queue = choices.below(8) != 0;
  cli::BoardService board(
      has_queue ? std::make_unique<cli::QueueApi>(cli::QueueAccess(std::move(client), {})) : nullptr, runs(),
      {.token = kBoardToken, .reading_needs_token = true, .actions = has_queue && choices.below(4) != 0});
  constexpr int kMostRequests = 4;
  for (int i = 0; i < kMostRequests && !choices.done(); ++i) {
    const auto request = request_of(choices);
    const auto response = answer(board, request);
    check(request, response);
    if (response.stream) check(request, {.body = response.stream(), .content_type = "text/event-stream"});
  }
}

}  // namespace foretime::fuzz
