#include "server/service.h"

#include <array>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "base/error.h"
#include "server/score_request.h"

namespace foretime::server {
namespace {

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
  if (!found) throw HttpError{404, "not_found", "no such path; docs/how-to/serve.md has all"};
  const bool head = request.method == "HEAD" && std::string_view(found->method) == "GET";
  if (request.method != found->method && !head)
    throw HttpError{405, "method_not_allowed", fmt::format("expected {}", found->method)};
  return *found;
}

/// A module may begin with a line feed and a brace, the tag of its name and a length of 123; no name goes on like this.
bool is_json(const std::string& body) {
  constexpr const char* kBlank = " \t\r\n";
  const auto start = body.find_first_not_of(kBlank);
  if (start == std::string::npos || body[start] != '{') return false;
  const auto next = body.find_first_not_of(kBlank, start + 1);
  return next == std::string::npos || body[next] == '"' || body[next] == '}';
}

/// A name of the content alone, whoever sends it.
std::string id_of(const HttpRequest& request) {
  constexpr size_t kBytes = 16;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  EVP_DigestUpdate(context.get(), request.body.data(), request.body.size());
  EVP_DigestFinal_ex(context.get(), digest.data(), nullptr);
  std::string id;
  for (size_t i = 0; i < kBytes; ++i) id += fmt::format("{:02x}", digest.at(i));
  return id;
}

HttpResponse ok(const nlohmann::json& body) {
  return {200, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

/// A place among so many; throws where all are taken.
class Place {
 public:
  Place(std::atomic<int64_t>& taken, int64_t most) : taken_(taken) {
    if (taken_.fetch_add(1) < most) return;
    --taken_;
    throw HttpError{503, "busy",
                    fmt::format("{} requests are being scored or wait, which is the limit; try again", most)};
  }
  ~Place() { --taken_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::atomic<int64_t>& taken_;
};

class Turn {
 public:
  explicit Turn(std::counting_semaphore<>& turns) : turns_(turns) { turns_.acquire(); }
  ~Turn() { turns_.release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::counting_semaphore<>& turns_;
};

void expect_kind(const inference::Model& model, bool fits, const char* what) {
  if (!fits)
    throw inference::WrongKind(fmt::format("{}: the model scores {}", what, inference::kind_name(model.kind())));
}

/// Empty where the model does not predict run times.
std::vector<double> seconds(const inference::Model& model, const Scored& scored, double operations) {
  const auto& terms = model.terms();
  const bool needs_flops = terms.targets.kind == inference::Targets::Kind::log_runtime_per_flop;
  if (!terms.predicts_runtimes || terms.unit == data::RuntimeUnit::normalized || (needs_flops && operations <= 0.0))
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
      openings_(static_cast<std::ptrdiff_t>(limits.max_concurrent)),
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
  batcher_.hurry();
}

void Service::admit(const HttpRequest& request) {
  const auto found = find_route(request);
  if (draining_ && found.route != Route::health) throw HttpError{503, "draining", "the server is about to end"};
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
      case Route::graphs:
        return open_graph(*served, request);
      case Route::workloads:
        return open_workload(*served, request);
      case Route::graph_score:
        return score_graph(*served, request, found.id);
      case Route::workload_score:
        return score_workload(*served, request, found.id);
      default:
        return score_tir(*served, request);
    }
  } catch (const DataError& error) {
    throw HttpError{400, "bad_input", error.what()};
  } catch (const inference::WrongKind& error) {
    throw HttpError{400, "wrong_kind", error.what()};
  }
}

HttpResponse Service::open_graph(Served& served, const HttpRequest& request) {
  expect_kind(*served.model, served.model->terms().kind != data::CandidateKind::program, "graphs");
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
  expect_kind(*served.model, served.model->terms().kind != data::CandidateKind::program, "graphs");
  const auto graph = served.graphs.find(id);
  if (!graph) throw HttpError{404, "unknown_graph", "no graph of this id, or it was forgotten; send it again"};
  ScoreRequest score;
  read_graph_request(request, *graph, served.model->terms().kind, limits_, score);
  const auto scored = batcher_.score(graph, std::move(score.work));
  return {200, score_answer(score, scored, seconds(*served.model, scored, 0.0))};
}

HttpResponse Service::score_workload(Served& served, const HttpRequest& request, const std::string& id) {
  expect_kind(*served.model, served.model->kind() == inference::ModelKind::loops, "workloads");
  const auto workload = served.workloads.find(id);
  if (!workload) throw HttpError{404, "unknown_workload", "no workload of this id, or it was forgotten; send it again"};
  ScoreRequest score;
  read_text_request(request, "records", limits_.max_candidates, score);
  const auto scored = batcher_.score(workload, std::move(score.work));
  return {200, score_answer(score, scored, seconds(*served.model, scored, workload->operations()))};
}

HttpResponse Service::score_tir(Served& served, const HttpRequest& request) {
  expect_kind(*served.model, served.model->terms().kind == data::CandidateKind::program, "programs");
  ScoreRequest score;
  read_text_request(request, "programs", limits_.max_candidates, score);
  const auto scored = batcher_.score(served.tir, std::move(score.work));
  return {200, score_answer(score, scored, seconds(*served.model, scored, 0.0))};
}

}  // namespace foretime::server
