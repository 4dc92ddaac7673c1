#include "tests/inference/small_models.h"

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>

#include "data/files/line_source.h"
#include "data/frontends/loops/program_graphs.h"
#include "data/frontends/tir/tir_file.h"
#include "data/graphs/schema.h"
#include "inference/bundle/safetensors_file.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/support/paths.h"

namespace foretime::inference::testing {
namespace {

using inference::Form;
using inference::Operation;
using Json = nlohmann::json;

constexpr int64_t kWidth = 6, kLayoutValues = 8;

/// Weights from −0.5 to 0.5, the same for everyone.
class Weights {
 public:
  std::string add(const std::string& name, std::vector<int64_t> shape, float scale = 1.0F) {
    size_t size = 1;
    for (const int64_t extent : shape) size *= static_cast<size_t>(extent);
    inference::Weight weight{std::move(shape), std::vector<float>(size)};
    for (float& value : weight.values) value = scale * (static_cast<float>(random_() % 1000) / 1000.0F - 0.5F);
    all_[name] = std::move(weight);
    return name;
  }
  inference::Weights take() { return std::move(all_); }

 private:
  std::mt19937 random_{7};
  inference::Weights all_;
};

Operation dense(const std::string& result, const std::string& input, const std::string& weight,
                const std::string& bias = "") {
  return {.op = "dense", .result = result, .inputs = {input}, .weights = {weight, bias}, .numbers = {{"slope", 0.1}}};
}

Operation pool(const std::string& result, const std::string& input, const std::string& matrix, const char* mode) {
  return {.op = "pool", .result = result, .inputs = {input}, .matrices = {matrix}, .mode = mode};
}

/// The last layer: from `embedded` to one score.
void finish(Form& form, Weights& weights, int64_t columns, bool compares) {
  form.embedded = "embedded";
  form.embedded_columns = columns;
  form.scores = "scores";
  std::string input = inference::kEmbedded;
  if (compares) {
    form.score.push_back({.op = "group", .result = "compared", .inputs = {input}, .mode = "standardize"});
    input = "compared";
  }
  form.score.push_back(
      {.op = "dense", .result = "scores", .inputs = {input}, .weights = {weights.add("head", {1, columns}), ""}});
}

Bundle bundle_of(const Form& form, Weights& weights, data::CandidateKind kind, const std::string& representation,
                 int64_t features, int64_t node_types, const char* unit) {
  Bundle bundle;
  bundle.weights = weights.take();
  bundle.manifest = {{"format_version", 1},
                     {"foretime_version", "0.1.0"},
                     {"architecture", {{"type", "handmade"}, {"settings", ""}}},
                     {"settings", ""},
                     {"schema", schema_of(kind, representation, features, node_types)},
                     {"prune_hops", -1},
                     {"hardware", nullptr},
                     {"form", inference::to_json(form)},
                     {"targets", {{"kind", "log_runtime"}, {"scale", 1.0}, {"mean", -9.0}, {"deviation", 2.0}}},
                     {"predicts_runtimes", true},
                     {"runtime_unit", unit},
                     {"compares_candidates", false},
                     {"training", {{"data_fingerprint", "00"}, {"step", 10}, {"mean_runtime", 0.5}}},
                     {"metrics", {{"valid/opa", 0.75}}},
                     {"licence", ""},
                     {"libraries", Json::object()}};
  return bundle;
}

/// A node's state: its features and its type.
void add_nodes(Form& form, Weights& weights, int64_t features, float scale) {
  form.embed.push_back(dense("features", inference::kNodeFeatures, weights.add("features", {kWidth, features}, scale)));
  form.embed.push_back({.op = "lookup",
                        .result = "types",
                        .matrices = {"node_types"},
                        .weights = {weights.add("types", {256, kWidth})}});
  form.embed.push_back({.op = "add", .result = "nodes", .inputs = {"features", "types"}});
}

/// One layer of messages, from `input` of level 0 to `result` of level 1.
void add_layer(Form& form, Weights& weights, const std::string& input, const std::string& result) {
  form.request.layers = 1;
  form.request.relations = {{.direction = plans::Direction::both, .norm = plans::EdgeNorm::mean}};
  form.embed.push_back(dense("messages", input, weights.add("messages", {kWidth, kWidth})));
  form.embed.push_back({.op = "csr_sum",
                        .result = result,
                        .inputs = {"messages", input},
                        .matrices = {"layer.0.relation.0", "layer.0.self"},
                        .weights = {weights.add("layer", {kWidth})},
                        .numbers = {{"slope", 0.1}}});
}

}  // namespace

Bundle layout_bundle(const LayoutForm& chosen) {
  Form form;
  Weights weights;
  form.request.sharing = chosen.sharing;
  form.request.tied = chosen.tied;
  add_nodes(form, weights, data::kHloFeatures, 0.002F);
  form.embed.push_back({.op = "codes",
                        .result = "codes",
                        .inputs = {inference::kLayoutRows},
                        .weights = {weights.add("codes", {data::kLayoutFeatures * kLayoutValues, 2})},
                        .numbers = {{"values", kLayoutValues}, {"least", -1.0}}});
  form.embed.push_back(dense("layouts", "codes", weights.add("layouts", {kWidth, 2 * data::kLayoutFeatures})));
  form.embed.push_back({.op = "csr_sum",
                        .result = "states",
                        .inputs = {"nodes", "layouts"},
                        .matrices = {"level.0.node", "level.0.layout_row"},
                        .numbers = {{"slope", 0.1}}});
  add_layer(form, weights, "states", "last");
  form.embed.push_back(pool("all", "last", "nodes", "mean"));
  form.embed.push_back(pool("some", "last", chosen.tied ? "tied" : "configurable", "sum"));
  form.embed.push_back({.op = "join", .result = "embedded", .inputs = {"all", "some"}});
  finish(form, weights, 2 * kWidth, chosen.compares);
  auto bundle =
      bundle_of(form, weights, data::CandidateKind::layout, "", data::kHloFeatures, data::kHloOpcodes, "nanoseconds");
  bundle.manifest["compares_candidates"] = chosen.compares;
  bundle.manifest["prune_hops"] = chosen.prune_hops;
  return bundle;
}

Bundle tile_bundle(plans::TileJoin join) {
  Form form;
  Weights weights;
  form.request.tile_join = join;
  add_nodes(form, weights, data::kHloFeatures, 0.002F);
  form.embed.push_back(
      dense("tiles", inference::kCandidateFeatures, weights.add("tiles", {kWidth, data::kTileFeatures}, 0.1F)));
  const bool early = join == plans::TileJoin::early;
  Operation states{.op = "csr_sum", .result = "states", .inputs = {"nodes"}, .matrices = {"level.0.node"}};
  if (early) {
    states.inputs.push_back("tiles");
    states.matrices.push_back("level.0.candidate");
  }
  states.numbers = {{"slope", 0.1}};
  form.embed.push_back(states);
  add_layer(form, weights, "states", "last");
  form.embed.push_back(pool("all", "last", "nodes", "sum"));
  form.embed.push_back({.op = "join", .result = "embedded", .inputs = {"all", "tiles"}});
  finish(form, weights, 2 * kWidth, false);
  return bundle_of(form, weights, data::CandidateKind::tile, "", data::kHloFeatures, data::kHloOpcodes, "normalized");
}

Bundle loops_bundle(bool statements, bool hardware) {
  Form form;
  Weights weights;
  const int64_t columns = data::program_columns("loops");
  if (statements) {
    form.statements = true;
    form.embed.push_back(
        {.op = "csr_sum", .result = "rows", .inputs = {inference::kNodeFeatures}, .matrices = {"statements"}});
    form.embed.push_back(dense("hidden", "rows", weights.add("features", {kWidth, columns}, 0.1F)));
    form.embed.push_back(pool("embedded", "hidden", "statements_of", "sum"));
  } else {
    add_nodes(form, weights, columns, 0.1F);
    form.embed.push_back({.op = "csr_sum", .result = "states", .inputs = {"nodes"}, .matrices = {"level.0.node"}});
    add_layer(form, weights, "states", "last");
    form.embed.push_back(pool("embedded", "last", "nodes", "sum"));
  }
  finish(form, weights, kWidth, false);
  auto bundle = bundle_of(form, weights, data::CandidateKind::program, "loops", columns, data::kTirTypes, "seconds");
  if (hardware) {
    bundle.manifest["hardware"] = {{"vector_bytes", 32}, {"vector_registers", 16}, {"cores", 8},
                                   {"l1_bytes", 32768},  {"l2_bytes", 1 << 20},    {"l3_bytes", 1 << 24}};
  }
  return bundle;
}

Bundle trees_bundle() {
  Form form;
  Weights weights;
  add_nodes(form, weights, data::ProgramColumns::count, 0.1F);
  form.embed.push_back({.op = "csr_sum", .result = "states", .inputs = {"nodes"}, .matrices = {"level.0.node"}});
  add_layer(form, weights, "states", "last");
  form.embed.push_back(pool("embedded", "last", "nodes", "mean"));
  finish(form, weights, kWidth, false);
  return bundle_of(form, weights, data::CandidateKind::program, "ast", data::ProgramColumns::count, data::kTirTypes,
                   "seconds");
}

std::string unchecked_bytes(const Bundle& bundle) {
  inference::NamedArrays arrays;
  for (const auto& [name, weight] : bundle.weights) {
    arrays.emplace_back(name, inference::StoredArray{"F32",
                                                     weight.shape,
                                                     {reinterpret_cast<const char*>(weight.values.data()),
                                                      weight.values.size() * sizeof(float)}});
  }
  return inference::serialize_arrays(
      arrays, {{"format", "foretime-bundle"}, {"format_version", "1"}, {"manifest", bundle.manifest.dump()}});
}

data::Group small_graph(data::CandidateKind kind, int64_t nodes, int64_t configurable, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint32_t>(bound)); };
  data::Group group;
  group.name = "small";
  group.kind = kind;
  auto& graph = group.graphs;
  graph.feature_count = data::kHloFeatures;
  graph.node_type_count = data::kHloOpcodes;
  std::vector<int32_t> source, target;
  for (int64_t v = 1; v < nodes; ++v) {
    for (int64_t i = 0; i <= below(2); ++i) {
      source.push_back(static_cast<int32_t>(below(v)));
      target.push_back(static_cast<int32_t>(v));
    }
  }
  std::vector<float> features(static_cast<size_t>(nodes * data::kHloFeatures));
  for (float& value : features) value = static_cast<float>(below(64));
  std::vector<uint8_t> types(static_cast<size_t>(nodes));
  for (uint8_t& type : types) type = static_cast<uint8_t>(below(100));
  graph.graph_ptr = std::vector<int64_t>{0, nodes};
  graph.edge_ptr = std::vector<int64_t>{0, static_cast<int64_t>(source.size())};
  graph.node_features = std::move(features);
  graph.node_types = std::move(types);
  graph.edge_source = std::move(source);
  graph.edge_target = std::move(target);
  std::vector<int32_t> chosen;
  for (int64_t j = 0; j < configurable; ++j) chosen.push_back(static_cast<int32_t>(j * nodes / configurable));
  group.layout.nodes = std::move(chosen);
  return group;
}

std::vector<int8_t> random_layouts(int64_t candidates, int64_t configurable, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int8_t> layouts;
  for (int64_t i = 0; i < candidates * configurable; ++i) {
    // Few distinct rows, as compilers try.
    const auto choice = static_cast<int8_t>(random() % 5);
    for (int64_t k = 0; k < data::kLayoutFeatures; ++k)
      layouts.push_back(static_cast<int8_t>(k % 6 < 4 ? (k + choice) % 4 : -1));
  }
  return layouts;
}

std::vector<float> random_tiles(int64_t candidates, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> tiles(static_cast<size_t>(candidates * data::kTileFeatures));
  for (float& value : tiles) value = static_cast<float>(random() % 16);
  return tiles;
}

std::vector<std::string> sample_lines(const std::string& name, size_t most) {
  std::vector<std::string> lines;
  data::LineSource source(foretime::testing::samples_dir() / name);
  while (lines.size() < most) {
    const auto line = source.next();
    if (!line) break;
    lines.emplace_back(line->text);
  }
  return lines;
}

SampleWorkload sample_workload(size_t most_records) {
  const std::string key = R"([\"matmul\", 128, 128, 128])";
  SampleWorkload workload;
  for (auto& line : sample_lines("ansor/dags.jsonl.gz", 1000)) {
    if (line.find(key) != std::string::npos) workload.stage_table = std::move(line);
  }
  for (auto& line : sample_lines("ansor/records.jsonl.gz", 100000)) {
    if (workload.records.size() < most_records && line.find(key) != std::string::npos)
      workload.records.push_back(std::move(line));
  }
  if (workload.stage_table.empty() || workload.records.empty()) throw std::runtime_error("samples: no such workload");
  return workload;
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

std::vector<std::string> sample_trees(size_t most) {
  std::vector<std::string> trees;
  data::TirFile file(foretime::testing::samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz");
  for (data::TirRecord record; trees.size() < most && file.next(record);) trees.push_back(record.texts.back().second);
  return trees;
}

std::string sample_module() { return foretime::testing::small_module(); }

}  // namespace foretime::inference::testing
