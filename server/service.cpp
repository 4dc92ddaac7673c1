#include "server/service.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hex_digest.h"
#include "base/json_reader.h"
#include "base/no_copy.h"
#include "base/numbers.h"
#include "inference/scoring/ranking.h"

namespace foretime::server {
namespace {

/// Holds the work and the options of a request. Texts in `work` point into this object and the request.
struct ScoreRequest {
  Work work;
  std::vector<std::string> ids;  // [work.count], or empty
  std::optional<int64_t> top;    // the fastest so many, ranked; 0: all, ranked; absent: all, in their order

  JsonReader reader{"request"};
  std::deque<std::string> kept;  // texts that JSON held as objects
};

using Element = JsonReader::Element;
using Inside = JsonReader::Inside;

constexpr const char* kJson = "application/json";
constexpr const char* kBinary = "application/octet-stream";
constexpr int64_t kMostTop = std::numeric_limits<int64_t>::max();

void read_query(const HttpRequest& request, ScoreRequest& score) {
  for (const auto& [name, value] : request.query) {
    if (name != "top") throw DataError("query: {}: no such parameter, expected top", name);
    score.top = parse_number<int64_t>(value);
    if (score.top.value_or(-1) < 0) throw DataError("query: top: found {:.40}, expected a whole number from 0", value);
  }
}

/// The fields of a request in JSON; `read` takes the one named `name`.
template <class Read>
void read_fields(const HttpRequest& request, std::string_view name, ScoreRequest& score, Read read) {
  auto& json = score.reader;
  bool met = false, has_top = score.top.has_value();
  const auto root = json.object(json.parse(request.body), fmt::format("an object with {}", name));
  for (const auto& [key, value] : root) {
    if (key == name) {
      const Inside inside(json, key);
      json.once(met);
    } else if (key == "top") {
      const Inside inside(json, key);
      json.once(has_top);
      score.top = json.integer(value, 0, kMostTop);
    } else {
      const Inside inside(json, key);
      json.fail(fmt::format("unknown field of the request, expected {} and top", name));
    }
    if (key == name) read(value);
  }
  if (!met) json.fail(fmt::format("without {}", name));
}

void check_count(int64_t count, int64_t most) {
  if (count == 0) throw DataError("request: empty, expected at least one candidate");
  if (count > most) throw DataError("request: more than {} candidates, which is the limit", most);
}

template <class T>
std::vector<T> read_binary(const std::string& body, int64_t row, int64_t most, int64_t& count) {
  const auto bytes = std::ssize(body), size = row * static_cast<int64_t>(sizeof(T));
  if (size == 0 || bytes % size != 0)
    throw DataError("request: {} bytes, expected {} numbers of {} bytes for each candidate", bytes, row, sizeof(T));
  count = bytes / size;
  check_count(count, most);
  std::vector<T> values(count * row);
  std::memcpy(values.data(), body.data(), body.size());
  return values;
}

void append_number(fmt::memory_buffer& text, double value, bool is_float) {
  const auto out = std::back_inserter(text);
  if (!std::isfinite(value)) fmt::format_to(out, "null");
  else if (is_float) fmt::format_to(out, "{}", static_cast<float>(value));
  else fmt::format_to(out, "{}", value);
}

/// Candidates of a graph: {"candidates": […], "top": …}, or as application/octet-stream their numbers, int8 layouts or
/// float32 tiles, one candidate after another. Their numbers take no more memory than a body may (JSON need not name
/// all nodes). Throws DataError.
void read_graph_request(const HttpRequest& request, const GraphTarget& target, data::CandidateKind kind,
                        const ServeLimits& limits, ScoreRequest& score) {
  read_query(request, score);
  data::CandidateSchema schema{.kind = kind, .configurable = target.scorer().configurable(), .names = &target.names()};
  const int64_t bytes = schema.row() * (kind == data::CandidateKind::layout ? 1 : int64_t{sizeof(float)});
  const int64_t most =
      std::min(limits.max_candidates, std::max<int64_t>(1, limits.max_body / std::max<int64_t>(1, bytes)));
  schema.most = most;
  auto& work = score.work;
  if (request.content_type == kBinary) {
    if (kind == data::CandidateKind::layout)
      work.layouts = read_binary<int8_t>(request.body, schema.row(), most, work.count);
    else work.tiles = read_binary<float>(request.body, schema.row(), most, work.count);
    return;
  }
  read_fields(request, "candidates", score, [&](const Element& list) {
    auto candidates = data::read_candidates(score.reader, list, schema);
    work.count = candidates.count;
    work.layouts = std::move(candidates.layouts);
    work.tiles = std::move(candidates.tiles);
    score.ids = std::move(candidates.ids);
  });
}

/// Texts, records or programs: {NAME: […], "top": …} with each text as a string or, where it is JSON, as an object; or,
/// as any other type than application/json, one on each line. Throws DataError.
void read_text_request(const HttpRequest& request, std::string_view name, int64_t most, ScoreRequest& score) {
  read_query(request, score);
  auto& texts = score.work.texts;
  const auto add = [&](std::string_view text) {
    texts.push_back(text);
    check_count(texts.size(), most);
  };
  if (request.content_type == kJson) {
    read_fields(request, name, score, [&](const Element& list) {
      for (const Element item : score.reader.list(list, "a list of texts")) {
        const Inside inside(score.reader, name, std::ssize(texts));
        std::string_view text;
        if (item.get(text) != simdjson::SUCCESS) {
          score.reader.object(item, "a text or an object");
          text = score.kept.emplace_back(simdjson::minify(item));
        }
        add(text);
      }
    });
  } else {
    std::string_view rest = request.body;
    while (!rest.empty()) {
      auto line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) add(line);
    }
  }
  score.work.count = texts.size();
  check_count(score.work.count, most);
}

/// The answer: scores in their order, or the fastest ones. `seconds`: [scores], or empty.
std::string score_answer(const ScoreRequest& request, const Scored& scored, const std::vector<double>& seconds) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  const auto list = [&](const char* name, const auto& values, bool is_float) {
    fmt::format_to(out, "\"{}\": [", name);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) fmt::format_to(out, ", ");
      append_number(text, static_cast<double>(values[i]), is_float);
    }
    fmt::format_to(out, "], ");
  };
  fmt::format_to(out, "{{");
  if (!request.top) {
    list("scores", scored.scores, true);
    if (!seconds.empty()) list("seconds", seconds, false);
    if (!scored.failures.empty()) list("failures", scored.failures, true);
  } else {
    inference::Ranking ranking;
    ranking.scores.assign(scored.scores.begin(), scored.scores.end());
    fmt::format_to(out, "\"ranking\": [");
    const char* separator = "";
    for (const size_t i : inference::fastest_first(ranking, *request.top)) {
      fmt::format_to(out, "{}{{\"candidate\": {}", std::exchange(separator, ", "), i);
      if (!request.ids.empty() && !request.ids[i].empty())
        fmt::format_to(out, ", \"id\": {}", nlohmann::json(request.ids[i]).dump());
      fmt::format_to(out, ", \"score\": ");
      append_number(text, ranking.scores[i], true);
      if (!seconds.empty()) {
        fmt::format_to(out, ", \"seconds\": ");
        append_number(text, seconds[i], false);
      }
      if (!scored.failures.empty()) {
        fmt::format_to(out, ", \"failure\": ");
        append_number(text, scored.failures[i], true);
      }
      fmt::format_to(out, "}}");
    }
    fmt::format_to(out, "], ");
  }
  if (scored.failed > 0) {
    const nlohmann::json why = "program " + scored.first_failure;
    fmt::format_to(out, "\"failed\": {}, \"first_failure\": {}, ", scored.failed,
                   why.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  std::set<std::string> unknown(scored.unknown_machines.begin(), scored.unknown_machines.end());
  unknown.erase("");
  if (!unknown.empty())
    fmt::format_to(out, "\"unknown_machines\": {}, ",
                   nlohmann::json(unknown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  fmt::format_to(out, "\"requests\": {}}}\n", scored.requests);
  return fmt::to_string(text);
}

enum class Route : uint8_t { health, model, graphs, graph_score, workloads, workload_score, tir_score };

struct Match {
  Route route;
  const char* method;
  std::string id = {};
};

std::optional<Match> match(std::string_view path) {
  if (path == "/healthz") return Match{Route::health, "GET"};
  if (path == "/v1/model") return Match{Route::model, "GET"};
  if (path == "/v1/graphs") return Match{Route::graphs, "POST"};
  if (path == "/v1/workloads") return Match{Route::workloads, "POST"};
  if (path == "/v1/tir/score") return Match{Route::tir_score, "POST"};
  constexpr std::string_view kScore = "/score";
  for (const auto& [start, route] :
       {std::pair("/v1/graphs/", Route::graph_score), std::pair("/v1/workloads/", Route::workload_score)}) {
    if (!path.starts_with(start) || !path.ends_with(kScore)) continue;
    const auto id = path.substr(std::string_view(start).size());
    if (id.size() > kScore.size()) return Match{route, "POST", std::string(id.substr(0, id.size() - kScore.size()))};
  }
  return {};
}

Match find_route(const HttpRequest& request) {
  const auto found = match(request.path);
  if (!found) throw HttpError{404, "not_found", "no such path; docs/how-to/serve.md lists all"};
  const bool head = request.method == "HEAD" && std::string_view(found->method) == "GET";
  if (request.method != found->method && !head)
    throw HttpError{405, "method_not_allowed", fmt::format("expected {}", found->method)};
  return *found;
}

/// Returns whether the body is JSON. A module may begin with a line feed and a brace, the tag of its name and a length
/// of 123, but no name continues like JSON.
bool is_json(const std::string& body) {
  constexpr const char* kBlank = " \t\r\n";
  const auto start = body.find_first_not_of(kBlank);
  if (start == std::string::npos || body[start] != '{') return false;
  const auto next = body.find_first_not_of(kBlank, start + 1);
  return next == std::string::npos || body[next] == '"' || body[next] == '}';
}

/// A name of the content alone, whoever sends it.
std::string id_of(const HttpRequest& request) { return hex_digest("SHA256", request.body).substr(0, 32); }

HttpResponse ok(const nlohmann::json& body) {
  return {200, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

/// A place among so many; throws where all are taken.
class Place : NoCopy {
 public:
  Place(std::atomic<int64_t>& taken, int64_t most) : taken_(taken) {
    if (taken_.fetch_add(1) < most) return;
    --taken_;
    throw HttpError{503, "busy",
                    fmt::format("{} requests are running or waiting, which is the limit; try again", most)};
  }
  ~Place() { --taken_; }

 private:
  std::atomic<int64_t>& taken_;
};

class Turn : NoCopy {
 public:
  explicit Turn(std::counting_semaphore<>& turns) : turns_(turns) { turns_.acquire(); }
  ~Turn() { turns_.release(); }

 private:
  std::counting_semaphore<>& turns_;
};

void expect_kind(const inference::Model& model, bool fits, const char* what) {
  if (!fits) throw inference::WrongKind("found {}, but the model scores {}", what, inference::kind_name(model.kind()));
}

/// Returns predicted run times in seconds; empty if the model does not predict run times.
std::vector<double> seconds(const inference::Model& model, const Scored& scored, double operations) {
  const auto& spec = model.spec();
  const bool needs_flops = spec.targets.kind == configs::LossTarget::log_runtime_per_flop;
  if (!spec.predicts_runtimes || spec.unit == data::RuntimeUnit::normalized || (needs_flops && operations <= 0.0))
    return {};
  return model.seconds(scored.scores, std::vector<double>(needs_flops ? scored.scores.size() : 0, operations));
}

}  // namespace

Service::Served::Served(ModelPtr opened, const ServeLimits& limits)
    : model(std::move(opened)),
      graphs(limits.max_graphs, 4 * limits.max_nodes),
      workloads(limits.max_graphs, limits.max_graphs),
      tir(std::make_shared<TirTarget>(model)) {}

Service::Service(ModelPtr model, const ServeLimits& limits)
    : limits_(limits),
      served_(std::make_shared<Served>(std::move(model), limits)),
      openings_(limits.max_concurrent),
      batcher_(limits.max_concurrent, limits.batch_window, limits.max_candidates) {}

void Service::replace_model(ModelPtr model) {
  auto next = std::make_shared<Served>(std::move(model), limits_);
  const std::lock_guard lock(mutex_);
  served_.swap(next);
}

std::shared_ptr<Service::Served> Service::served() const {
  const std::lock_guard lock(mutex_);
  return served_;
}

void Service::drain() {
  draining_ = true;
  batcher_.stop_waiting();
}

void Service::admit(const HttpRequest& request) {
  const auto found = find_route(request);
  if (draining_ && found.route != Route::health) throw HttpError{503, "draining", "the server is shutting down"};
}

HttpResponse Service::answer(const HttpRequest& request) {
  const auto found = find_route(request);
  if (found.route == Route::health)
    return ok({{"status", draining_ ? "draining" : "ok"}, {"requests", working_.load()}});
  const auto served = this->served();
  if (found.route == Route::model) return {200, served->model->manifest_text() + "\n"};
  const Place place(working_, limits_.max_concurrent + limits_.max_queue);
  try {
    switch (found.route) {
      case Route::graphs: return open_graph(*served, request);
      case Route::workloads: return open_workload(*served, request);
      case Route::graph_score: return score_graph(*served, request, found.id);
      case Route::workload_score: return score_workload(*served, request, found.id);
      default: return score_tir(*served, request);
    }
  } catch (const DataError& error) {
    throw HttpError{400, "bad_input", error.what()};
  } catch (const inference::WrongKind& error) {
    throw HttpError{400, "wrong_kind", error.what()};
  }
}

HttpResponse Service::open_graph(Served& served, const HttpRequest& request) {
  expect_kind(*served.model, served.model->spec().kind != data::CandidateKind::program, "graphs");
  const auto id = id_of(request);
  auto graph = served.graphs.find(id);
  if (!graph) {
    const Turn turn(openings_);
    graph = GraphTarget::open(served.model, request.body, is_json(request.body), limits_.max_nodes);
    served.graphs.keep(id, graph, graph->weight());
  }
  auto configurable = nlohmann::json::array();
  for (const int32_t node : graph->scorer().configurable()) {
    nlohmann::json item = {{"node", node}};
    if (const auto name = graph->names().of(node); !name.empty()) item["name"] = name;
    configurable.push_back(std::move(item));
  }
  return ok({{"id", id}, {"nodes", graph->scorer().nodes()}, {"configurable", std::move(configurable)}});
}

HttpResponse Service::open_workload(Served& served, const HttpRequest& request) {
  expect_kind(*served.model, served.model->kind() == inference::ModelKind::loops, "workloads");
  const auto id = id_of(request);
  auto workload = served.workloads.find(id);
  if (!workload) {
    const Turn turn(openings_);
    workload = std::make_shared<const WorkloadTarget>(served.model, request.body);
    served.workloads.keep(id, workload, 1);
  }
  return ok({{"id", id}, {"workload_key", workload->dag().workload_key}, {"stages", workload->dag().stages.size()}});
}

HttpResponse Service::score_graph(Served& served, const HttpRequest& request, const std::string& id) {
  expect_kind(*served.model, served.model->spec().kind != data::CandidateKind::program, "graphs");
  const auto graph = served.graphs.find(id);
  if (!graph)
    throw HttpError{404, "unknown_graph", "found no graph with this id, it may have been dropped; send it again"};
  ScoreRequest score;
  read_graph_request(request, *graph, served.model->spec().kind, limits_, score);
  const auto scored = batcher_.score(graph, std::move(score.work));
  return {200, score_answer(score, scored, seconds(*served.model, scored, 0.0))};
}

HttpResponse Service::score_workload(Served& served, const HttpRequest& request, const std::string& id) {
  expect_kind(*served.model, served.model->kind() == inference::ModelKind::loops, "workloads");
  const auto workload = served.workloads.find(id);
  if (!workload)
    throw HttpError{404, "unknown_workload", "found no workload with this id, it may have been dropped; send it again"};
  ScoreRequest score;
  read_text_request(request, "records", limits_.max_candidates, score);
  const auto scored = batcher_.score(workload, std::move(score.work));
  return {200, score_answer(score, scored, seconds(*served.model, scored, workload->operations()))};
}

HttpResponse Service::score_tir(Served& served, const HttpRequest& request) {
  expect_kind(*served.model, served.model->spec().kind == data::CandidateKind::program, "programs");
  ScoreRequest score;
  read_text_request(request, "programs", limits_.max_candidates, score);
  const auto scored = batcher_.score(served.tir, std::move(score.work));
  return {200, score_answer(score, scored, seconds(*served.model, scored, 0.0))};
}

}  // namespace foretime::server
