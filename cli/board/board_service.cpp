#include "cli/board/board_service.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/no_copy.h"
#include "base/numbers.h"
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
constexpr std::chrono::seconds kPatience{10};  // wait for one of the kReaders places
constexpr size_t kMostFollowed = 8;

/// Allows only this program's files in the pages and their requests, and forbids framing.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
    const auto hex = text.substr(i + 1, 2);
    const auto value = parse_number<uint8_t>(hex, 16);
    if (text[i] == '%' && hex.size() == 2 && value) {
      plain += *value;
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
  if (value.empty()) throw HttpError{400, "bad_input", key + ": missing from the query, expected a value"};
  return value;
}

int64_t whole(const std::map<std::string, std::string>& query, const std::string& key, int64_t missing) {
  const auto text = value_of(query, key);
  if (text.empty()) return missing;
  const auto value = parse_number<int64_t>(text);
  if (value.value_or(-1) < 0)
    throw HttpError{400, "bad_input",
                    key + ": found " + printable_utf8(text.substr(0, 40)) + ", expected a whole number, 0 or more"};
  return *value;
}

/// Compares two texts in a time that does not depend on how much of them is equal.
bool is_same(std::string_view found, std::string_view expected) {
  unsigned difference = found.size() != expected.size();
  for (size_t i = 0; i < expected.size(); ++i)
    difference |= static_cast<unsigned char>(i < found.size() ? found[i] : 0) ^ static_cast<unsigned char>(expected[i]);
  return difference == 0;
}

/// Calls `call` and translates errors of the queue into answers.
template <class Call>
auto answering(const Call& call) {
  try {
    return call();
  } catch (const jobs::JobUnknown& error) {
    throw HttpError{404, "not_found", error.what()};
  } catch (const jobs::JobRefused& error) {
    throw HttpError{409, "refused", error.what()};
  } catch (const jobs::RedisUnavailable& error) {
    throw HttpError{503, "redis_unavailable", error.what()};
  } catch (const Error& error) {
    throw HttpError{400, "refused", error.what()};
  }
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

/// A place among those who read files, for as long as this lives. Throws HttpError where none becomes free.
template <class Semaphore>
class Place : NoCopy {
 public:
  explicit Place(Semaphore& places) : places_(places) {
    if (!places_.try_acquire_for(kPatience))
      throw HttpError{503, "busy", "other requests are still reading files of runs; try again"};
  }
  ~Place() { places_.release(); }

 private:
  Semaphore& places_;
};

}  // namespace

BoardService::BoardService(std::unique_ptr<QueueApi> queue, std::filesystem::path runs, BoardAccess access)
    : queue_(std::move(queue)), runs_(std::move(runs)), access_(std::move(access)) {}

void BoardService::check_token(const HttpRequest& request) const {
  if (!is_same(request.authorization, "Bearer " + access_.token))
    throw HttpError{401, "wrong_token", "the token is missing or wrong; open the address that foretime board printed"};
}

/// The token is in a header, which no page of another site can send: a form cannot, and a script would have to ask
/// first. What changes anything must also come from a page of this very address (the server has refused other hosts).
void BoardService::admit(const HttpRequest& request) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (reads && !request.path.starts_with("/api/")) return;
  if (reads) {
    if (access_.reading_needs_token) check_token(request);
    if (request.path == "/api/act") throw HttpError{405, "post_only", "/api/act takes POST"};
    return;
  }
  if (!access_.actions || request.method != "POST" || request.path != "/api/act")
    throw HttpError{405, "read_only",
                    "this board is read-only and answers only GET (foretime board --actions allows changes)"};
  if (!request.origin.empty() && request.origin != "http://" + request.host)
    throw HttpError{403, "foreign_origin", "a page from another address sent this request; use the board's own page"};
  check_token(request);
  if (request.content_type != "application/json")
    throw HttpError{415, "bad_input", "Content-Type: expected application/json"};
}

Json BoardService::act(const std::string& body) {
  const auto json = Json::parse(body, nullptr, false);
  const auto text = [&](const char* field) {
    const auto found = json.is_object() ? json.find(field) : json.end();
    if (!json.is_object() || found == json.end()) return std::string();
    if (!found->is_string()) throw HttpError{400, "bad_input", std::string(field) + ": expected a text"};
    return found->get<std::string>();
  };
  const auto action = text("action"), id = text("id");
  int64_t priority = 0;
  if (action == "priority") {
    const auto found = json.find("priority");
    constexpr auto kMost = jobs::Limits::kPriority;
    if (found == json.end() || !found->is_number_integer() || *found < -kMost || *found > kMost)
      throw HttpError{400, "bad_input", fmt::format("priority: expected a whole number from {} to {}", -kMost, kMost)};
    priority = found->get<int64_t>();
  }
  if (id.empty() && action != "pause" && action != "resume")
    throw HttpError{400, "bad_input", "id: is missing (only pause and resume act on the whole queue)"};
  const auto change = answering([&] {
    const std::lock_guard lock(queue_mutex_);
    return queue_->change(action, id, priority);
  });
  answers_.clear();
  fmt::print("{}\n", change.text);
  std::fflush(stdout);
  return {{"text", change.text}, {"warnings", change.warnings}};
}

Json BoardService::make(const std::string& path, const Query& query) {
  if (path == "/api/board")
    return {{"queue", queue_ ? Json(queue_->name()) : Json()}, {"runs", runs_.string()}, {"actions", access_.actions}};
  static const std::string kRunPaths[] = {"/api/runs", "/api/run", "/api/experiment", "/api/rankings"};
  if (std::ranges::find(kRunPaths, path) != std::end(kRunPaths)) return answer_of_runs(path, query);
  static const std::string kQueuePaths[] = {"/api/queue",    "/api/agents", "/api/activity", "/api/sweep",
                                            "/api/overview", "/api/curves", "/api/job",      "/api/log"};
  if (std::ranges::find(kQueuePaths, path) == std::end(kQueuePaths))
    throw HttpError{404, "not_found", printable_utf8(path.substr(0, 200)) + ": no such page"};
  if (!queue_) throw HttpError{404, "no_queue", "this board shows only run directories and no queue"};
  return path == "/api/job" ? answer_of_job(needed(query, "id")) : answer_of_queue(path, query);
}

Json BoardService::answer_of_runs(const std::string& path, const Query& query) {
  const Place place(readers_);
  if (path == "/api/runs") return list_runs(runs_);
  const auto name = needed(query, "name");
  if (path == "/api/run") return show_run(runs_, name);
  if (path == "/api/experiment") return show_experiment(runs_, name);
  return show_rankings(runs_, name);
}

Json BoardService::answer_of_job(const std::string& id) {
  jobs::JobRecord record;
  auto job = [&] {
    const std::lock_guard lock(queue_mutex_);
    return queue_->job(id, record);
  }();
  const Place place(readers_);
  add_history(job, record, runs_);
  return job;
}

Json BoardService::answer_of_queue(const std::string& path, const Query& query) {
  const std::lock_guard lock(queue_mutex_);
  if (path == "/api/queue") return queue_->queue();
  if (path == "/api/agents") return queue_->agents();
  if (path == "/api/activity")
    return queue_->activity(std::clamp<int64_t>(whole(query, "minutes", 60), 1, 7 * 24 * 60));
  const auto id = needed(query, "id");
  if (path == "/api/sweep") return queue_->sweep(id, trial_query(query));
  if (path == "/api/overview") return queue_->overview(id);
  return path == "/api/curves" ? queue_->curves(id) : queue_->log(id);
}

Answers::Text BoardService::api(const std::string& path, const Query& query) {
  return answers_.get(dump(Json::array({path, query})),
                      [&] { return dump(answering([&] { return make(path, query); })); });
}

HttpResponse BoardService::run_file(const Query& query) {
  const auto file = needed(query, "file");
  const auto next = [&] {
    const Place place(readers_);
    return cli::run_file(runs_, needed(query, "name"), file);
  }();
  return {.body = "",
          .content_type = "text/plain; charset=utf-8",
          .headers = {{"Content-Disposition", "attachment; filename=\"" + file + "\""}},
          .stream = [this, next] {
            if (draining_)
              throw HttpError{503, "ending", "the board is shutting down"};  // the client sees that this is not all
            return next();
          }};
}

HttpResponse BoardService::trials_csv(const Query& query) {
  if (!queue_) throw HttpError{404, "no_queue", "this board shows only run directories and no queue"};
  const auto id = needed(query, "id");
  auto text = answering([&] {
    const std::lock_guard lock(queue_mutex_);
    return queue_->trials_csv(id, trial_query(query));
  });
  return {.body = std::move(text),
          .content_type = "text/csv; charset=utf-8",
          .headers = {{"Content-Disposition", "attachment; filename=\"trials.csv\""}}};
}

/// Holds the paths that a page follows, each with its last answer.
struct BoardService::Followed {
  std::string path;
  Query query;
  std::string target;
  Answers::Text last{};  // shared with all who follow it
};

HttpResponse BoardService::live(const std::string& targets, bool named) {
  auto followed = std::make_shared<std::vector<Followed>>();
  for (size_t begin = 0; begin < targets.size();) {
    const auto end = std::min(targets.find('\n', begin), targets.size());
    const auto target = targets.substr(begin, end - begin);
    begin = end + 1;
    if (followed->size() >= kMostFollowed)
      throw HttpError{400, "bad_input", fmt::format("paths: found more than {}", kMostFollowed)};
    const auto path = target.substr(0, target.find('?'));
    followed->push_back(
        {path, query_of(std::string_view(target).substr(std::min(target.size(), path.size() + 1))), target});
    api(path, followed->back().query);  // a path that cannot be shown has a separate answer
  }
  if (streams_.fetch_add(1) >= kMostStreams) {
    --streams_;
    throw HttpError{503, "busy", "too many pages follow this board"};
  }
  const std::shared_ptr<void> counted(nullptr, [this](void*) { --streams_; });
  HttpResponse response{.body = "", .content_type = "text/event-stream"};
  auto first = std::make_shared<bool>(true);
  response.stream = [this, followed, named, first, counted]() -> std::string {
    const auto until = std::chrono::steady_clock::now() + kHeartbeat;
    std::string said = *first ? "retry: 2000\n\n" : "";
    for (bool wait = !std::exchange(*first, false); !draining_ && std::chrono::steady_clock::now() < until;
         wait = true) {
      if (wait) std::this_thread::sleep_for(kLook);
      for (auto& each : *followed) {
        Answers::Text text;
        const char* kind = "";
        try {
          text = api(each.path, each.query);
        } catch (const HttpError& error) {
          text = std::make_shared<const std::string>(trimmed(server::to_response(error).body));
          kind = "event: trouble\n";
        }
        if (each.last && *text == *each.last) continue;
        each.last = text;
        said += named ? fmt::format("{}data: {{\"path\":{},\"answer\":{}}}\n\n", kind, dump(Json(each.target)), *text)
                      : fmt::format("{}data: {}\n\n", kind, *text);
      }
      if (!said.empty()) return said;
    }
    return draining_ ? "" : ": still here\n\n";
  };
  return response;
}

HttpResponse BoardService::answer(const HttpRequest& request) {
  if (draining_) throw HttpError{503, "ending", "the board is shutting down"};
  try {
    if (request.path == "/api/act")
      return guarded({.body = dump(act(request.body)), .content_type = "application/json"});
    if (request.path == "/api/live") {
      const bool named = request.query.contains("paths");
      return guarded(live(needed(request.query, named ? "paths" : "path"), named));
    }
    if (request.path == "/api/file") return guarded(run_file(request.query));
    if (request.path == "/api/trials.csv") return guarded(trials_csv(request.query));
    if (request.path.starts_with("/api/"))
      return guarded({.body = *api(request.path, request.query), .content_type = "application/json"});
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
  return guarded(server::to_response({404, "not_found", "the board has no page at this path"}));
}

}  // namespace foretime::cli
