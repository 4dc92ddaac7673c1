#include "cli/board/board_service.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/board/run_api.h"
#include "jobs/error.h"

namespace foretime::cli {

using Json = nlohmann::json;
using server::HttpError;
using server::HttpRequest;
using server::HttpResponse;

namespace {

constexpr int kMostStreams = 64;
constexpr std::chrono::milliseconds kLook{500}, kHeartbeat{10'000};
constexpr size_t kAnswersKept = 200;

/// Nothing but what this program serves runs in the pages or is asked by them, and nobody frames them.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

HttpResponse guarded(HttpResponse response) {
  response.headers.insert(response.headers.end(), {{"Content-Security-Policy", kContentPolicy},
                                                   {"X-Content-Type-Options", "nosniff"},
                                                   {"Referrer-Policy", "no-referrer"},
                                                   {"Cross-Origin-Resource-Policy", "same-origin"},
                                                   {"Cache-Control", "no-store"}});
  return response;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const auto hex = text.substr(i + 1, 2);
    if (text[i] == '%' && hex.size() == 2 &&
        std::from_chars(hex.data(), hex.data() + 2, value, 16).ptr == hex.data() + 2) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

/// The part of a target behind its question mark.
std::map<std::string, std::string> query_of(std::string_view text) {
  std::map<std::string, std::string> query;
  while (!text.empty()) {
    const auto part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const auto equals = std::min(part.find('='), part.size());
    query[decoded(part.substr(0, equals))] = decoded(part.substr(std::min(part.size(), equals + 1)));
  }
  return query;
}

std::string value_of(const std::map<std::string, std::string>& query, const std::string& key) {
  const auto found = query.find(key);
  return found == query.end() ? "" : found->second;
}

std::string needed(const std::map<std::string, std::string>& query, const std::string& key) {
  auto value = value_of(query, key);
  if (value.empty()) throw HttpError{400, "bad_input", key + ": is missing"};
  return value;
}

int64_t whole(const std::map<std::string, std::string>& query, const std::string& key, int64_t missing) {
  const auto text = value_of(query, key);
  if (text.empty()) return missing;
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0)
    throw HttpError{400, "bad_input",
                    key + ": found " + printable_utf8(text.substr(0, 40)) + ", expected a whole number"};
  return value;
}

TrialQuery trial_query(const std::map<std::string, std::string>& query) {
  TrialQuery trials;
  if (const auto sort = value_of(query, "sort"); !sort.empty()) trials.sort = sort;
  trials.descending = value_of(query, "descending") == "1";
  trials.state = value_of(query, "state");
  trials.search = value_of(query, "search");
  trials.from = whole(query, "from", trials.from);
  trials.limit = whole(query, "limit", trials.limit);
  if (!trials.state.empty()) jobs::parse_job_state(trials.state);
  return trials;
}

}  // namespace

BoardService::BoardService(std::unique_ptr<QueueApi> queue, std::filesystem::path runs)
    : queue_(std::move(queue)), runs_(std::move(runs)) {}

void BoardService::admit(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD")
    throw HttpError{405, "read_only", "this board changes nothing: GET alone is answered"};
}

Json BoardService::make(const std::string& path, const Query& query) {
  if (path == "/api/board") return {{"queue", queue_ ? Json(queue_->name()) : Json()}, {"runs", runs_.string()}};
  if (path == "/api/runs") return list_runs(runs_);
  if (path == "/api/run") return show_run(runs_, needed(query, "name"));
  static const std::string kQueuePaths[] = {"/api/queue", "/api/sweep", "/api/overview", "/api/job", "/api/log"};
  if (std::ranges::find(kQueuePaths, path) == std::end(kQueuePaths))
    throw HttpError{404, "not_found", printable_utf8(path.substr(0, 200)) + ": nothing is here"};
  if (!queue_) throw HttpError{404, "no_queue", "no queue is shown here: run directories alone"};
  if (path == "/api/queue") return queue_->queue();
  const auto id = needed(query, "id");
  if (path == "/api/sweep") return queue_->sweep(id, trial_query(query));
  if (path == "/api/overview") return queue_->overview(id);
  return path == "/api/job" ? queue_->job(id) : queue_->log(id);
}

std::string BoardService::api(const std::string& path, const Query& query) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(answers_, [&](const auto& entry) { return now - entry.second.made > kFresh; });
  const auto key = dump(Json::array({path, query}));
  if (const auto found = answers_.find(key); found != answers_.end()) return found->second.text;
  try {
    auto text = dump(make(path, query));
    if (answers_.size() < kAnswersKept) answers_[key] = {now, text};
    return text;
  } catch (const jobs::JobRefused& error) {
    throw HttpError{404, "not_found", error.what()};
  } catch (const jobs::RedisUnavailable& error) {
    throw HttpError{503, "redis_unavailable", error.what()};
  } catch (const Error& error) {
    throw HttpError{400, "refused", error.what()};
  }
}

HttpResponse BoardService::live(const std::string& target) {
  const auto path = target.substr(0, target.find('?'));
  const auto query = query_of(std::string_view(target).substr(std::min(target.size(), path.size() + 1)));
  auto last = std::make_shared<std::string>(api(path, query));  // what cannot be shown is an answer of its own
  if (streams_.fetch_add(1) >= kMostStreams) {
    --streams_;
    throw HttpError{503, "busy", "too many pages follow this board"};
  }
  const std::shared_ptr<void> counted(nullptr, [this](void*) { --streams_; });
  HttpResponse response{.body = "", .content_type = "text/event-stream"};
  auto first = std::make_shared<bool>(true);
  response.stream = [this, path, query, last, first, counted]() -> std::string {
    if (std::exchange(*first, false)) return "retry: 2000\ndata: " + *last + "\n\n";
    const auto until = std::chrono::steady_clock::now() + kHeartbeat;
    while (!draining_ && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(kLook);
      try {
        auto text = api(path, query);
        if (text == *last) continue;
        *last = std::move(text);
        return "data: " + *last + "\n\n";
      } catch (const HttpError& error) {
        const auto text = server::to_response(error).body;
        if (text == *last) continue;
        *last = text;
        return "event: trouble\ndata: " + trimmed(text) + "\n\n";
      }
    }
    return draining_ ? "" : ": still here\n\n";
  };
  return response;
}

HttpResponse BoardService::answer(const HttpRequest& request) {
  if (draining_) throw HttpError{503, "ending", "the board ends"};
  try {
    if (request.path == "/api/live") return guarded(live(needed(request.query, "path")));
    if (request.path.starts_with("/api/"))
      return guarded({.body = api(request.path, request.query), .content_type = "application/json"});
  } catch (const HttpError& error) {
    return guarded(server::to_response(error));
  } catch (const Error& error) {
    return guarded(server::to_response({400, "bad_input", error.what()}));
  }
  const Asset* page = nullptr;
  for (const auto* asset = kAssets; asset->path != nullptr; ++asset) {
    if (request.path == asset->path) return guarded({.body = asset->text, .content_type = asset->content_type});
    if (std::strcmp(asset->path, "/index.html") == 0) page = asset;
  }
  // Views have addresses of their own, which the page reads.
  if (page != nullptr && request.path.find('.') == std::string::npos)
    return guarded({.body = page->text, .content_type = page->content_type});
  return guarded(server::to_response({404, "not_found", "nothing is here"}));
}

}  // namespace foretime::cli
