#include <nlohmann/json.hpp>

#include "server/service.h"
#include "tests/fuzz/targets.h"
#include "tests/inference/small_models.h"

namespace foretime::fuzz {
namespace {

namespace samples = inference::testing;
using Json = nlohmann::json;

constexpr const char* kJson = "application/json";

/// A server's answers, without HTTP. "" where the request was refused, which takes a reason.
std::string ask(server::Service& service, const std::string& path, const std::string& type, std::string body) {
  try {
    server::HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.content_type = type;
    request.body = std::move(body);
    return service.answer(request).body;
  } catch (const server::HttpError& error) {
    require(error.status >= 400 && error.status < 500, "input from outside is the sender's fault",
            error.message.c_str());
    require(!error.message.empty(), "a refusal has a message", "");
    return "";
  }
}

server::Service& service_of(const inference::Bundle& bundle) {
  // Never destroyed: its threads wait until the process ends.
  return *new server::Service(std::make_shared<const inference::Model>(bundle),
                              {.max_body = 1 << 16, .max_nodes = 1000});
}

std::string opened(server::Service& service, const char* path, const std::string& body) {
  return Json::parse(ask(service, path, "", body)).at("id");
}

std::string sample_graph(bool layouts) {
  Json graph = {{"node_features", Json::array()}, {"node_types", {63, 34, 2}}, {"edges", {{1, 0}, {2, 1}}}};
  for (int node = 0; node < 3; ++node) graph["node_features"].push_back(std::vector<float>(140, 1.0F));
  if (layouts) graph["configurable_nodes"] = {1, 2};
  return graph.dump();
}

}  // namespace

void run_serve(std::string_view text) {
  if (text.empty()) return;
  static auto& graphs = service_of(samples::layout_bundle());  // forgets graphs, as many come
  static auto& layouts = service_of(samples::layout_bundle());
  static auto& tiles = service_of(samples::tile_bundle());
  static auto& loops = service_of(samples::loops_bundle());
  static const auto workload = samples::sample_workload(2);
  static const auto layout_graph = "/v1/graphs/" + opened(layouts, "/v1/graphs", sample_graph(true)) + "/score";
  static const auto tile_graph = "/v1/graphs/" + opened(tiles, "/v1/graphs", sample_graph(false)) + "/score";
  static const auto records = "/v1/workloads/" + opened(loops, "/v1/workloads", workload.compute_dag) + "/score";
  const char what = text.front();
  const std::string body(text.substr(1));
  if (what == '1') {
    ask(layouts, layout_graph, kJson, body);
  } else if (what == '2') {
    ask(tiles, tile_graph, kJson, body);
  } else if (what == '3') {
    ask(loops, records, kJson, body);
  } else {
    const auto made = ask(graphs, "/v1/graphs", kJson, body);
    if (made.empty()) return;
    ask(graphs, "/v1/graphs/" + Json::parse(made).at("id").get<std::string>() + "/score", kJson,
        R"({"candidates": [{"layouts": {}}]})");
  }
}

std::vector<std::string> serve_seeds() {
  const auto sample = samples::sample_workload(2);
  return {
      "0" + sample_graph(true),
      R"(1{"candidates": [{"id": "a", "layouts": {"1": [[1, 0], [0, 1], []], "2": [1, 0, -1, -1, -1, -1, 0, 1, -1, -1, -1, -1,
            -1, -1, -1, -1, -1, -1]}}, {"id": 7, "layouts": {}}], "top": 1})",
      R"(2{"candidates": [{"config": {"output_bounds": [8, 128], "input_bounds": [8]}}, {"id": "b", "config": [0, 0, 0,
            0, 0, 0, 0, 0, 8, 128, 0, 0, 0, 0, 136, 1024, 8, 256, 0, 0, 0, 0, 264, 2048]}], "top": 0})",
      "3" + Json({{"records", {sample.records[0], Json::parse(sample.records[1])}}, {"top", 2}}).dump()};
}

}  // namespace foretime::fuzz
