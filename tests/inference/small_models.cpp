#include "tests/inference/small_models.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "data/files/line_source.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/tir/tir_file.h"
#include "data/graphs/schema.h"
#include "inference/files/safetensors_file.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/support/paths.h"

namespace foretime::inference::testing {
namespace {

using Json = nlohmann::json;

constexpr int64_t kWidth = 6, kLayoutValues = 8;

/// Weights from −0.5 to 0.5, the same for everyone.
class SmallWeights {
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

using Kind = MatrixRef::Kind;

constexpr double kSlope = 0.1;

/// Builds the list `embed` of a graph, whose weights are made along the way.
class SmallGraph {
 public:
  Value add(Operation operation) {
    graph.embed.push_back({std::move(operation)});
    return value_of(graph.embed.size() - 1);
  }
  WeightRef weight(const std::string& name, std::vector<int64_t> shape, float scale = 1.0F) {
    return {weights.add(name, std::move(shape), scale)};
  }
  Value dense(Value x, const WeightRef& weight) { return add(Dense{.x = x, .weight = weight, .slope = kSlope}); }
  Value sum(std::vector<MatrixRef> matrices, std::vector<Value> inputs, const WeightRef& bias = {},
            double slope = 1.0) {
    return add(CsrSum{.matrices = std::move(matrices), .inputs = std::move(inputs), .bias = bias, .slope = slope});
  }
  Value pooled(Value x, Kind pool) { return add(PoolStates{.x = x, .matrix = {pool}}); }
  Value mean(Value x, Kind pool) { return add(PoolMean{.sums = pooled(x, pool), .matrix = {pool}}); }

  /// A node's state: its features and its type.
  Value nodes(int64_t features, float scale) {
    const Value columns = dense(kNodeFeatures, weight("features", {kWidth, features}, scale));
    const Value types = add(Lookup{.matrix = {Kind::node_types}, .table = weight("types", {256, kWidth})});
    return add(Add{.inputs = {columns, types}});
  }

  /// One layer of messages, from states of level 0 to those of level 1.
  Value layer(Value states) {
    graph.request.layers = 1;
    graph.request.relations = {{.direction = plans::Direction::both, .norm = plans::EdgeNorm::mean}};
    const Value messages = dense(states, weight("messages", {kWidth, kWidth}));
    return sum({{Kind::relation}, {Kind::self}}, {messages, states}, weight("layer", {kWidth}), kSlope);
  }

  /// The last layer: from `embedded` to one score, and the logit of failure where `outputs` is 2.
  void finish(Value embedded, int64_t columns, bool compares, int64_t outputs = 1) {
    graph.embedded = embedded;
    graph.embedded_columns = columns;
    Value x = kEmbedded;
    const auto score = [&](Operation operation) {
      graph.score.push_back({std::move(operation)});
      x = value_of(graph.score.size() - 1);
    };
    if (compares) score(Standardize{.x = x});
    score(Dense{.x = x, .weight = weight("head", {outputs, columns})});
    graph.scores = x;
  }

  Graph graph;
  SmallWeights weights;
};

Bundle bundle_of(SmallGraph& made, data::CandidateKind kind, std::optional<configs::Representation> representation,
                 int64_t features, int64_t node_types, const char* unit) {
  Bundle bundle;
  bundle.weights = made.weights.take();
  bundle.manifest = {{"format_version", kBundleVersion},
                     {"foretime_version", "0.2.0"},
                     {"architecture", {{"type", "handmade"}, {"settings", ""}}},
                     {"settings", ""},
                     {"schema", schema_of(kind, representation, features, node_types)},
                     {"prune_hops", -1},
                     {"hardware", nullptr},
                     {"graph", to_json(made.graph)},
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

}  // namespace

Bundle layout_bundle(const LayoutModel& chosen) {
  SmallGraph g;
  g.graph.request.sharing = chosen.sharing;
  g.graph.request.tied = chosen.tied;
  const Value nodes = g.nodes(data::kHloFeatures, 0.002F);
  const Value codes = g.add(LayoutCodes{.x = kLayoutRows,
                                        .table = g.weight("codes", {data::kLayoutFeatures * kLayoutValues, 2}),
                                        .values = kLayoutValues,
                                        .least = -1});
  const Value layouts = g.dense(codes, g.weight("layouts", {kWidth, 2 * data::kLayoutFeatures}));
  const Value states = g.sum({{Kind::level_node}, {Kind::level_layout_row}}, {nodes, layouts}, {}, kSlope);
  const Value last = g.layer(states);
  const Value all = g.mean(last, Kind::nodes), some = g.pooled(last, chosen.tied ? Kind::tied : Kind::configurable);
  g.finish(g.add(Join{.inputs = {all, some}}), 2 * kWidth, chosen.compares);
  auto bundle = bundle_of(g, data::CandidateKind::layout, {}, data::kHloFeatures, data::kHloOpcodes, "nanoseconds");
  bundle.manifest["compares_candidates"] = chosen.compares;
  bundle.manifest["prune_hops"] = chosen.prune_hops;
  return bundle;
}

Bundle tile_bundle(plans::TileJoin join) {
  SmallGraph g;
  g.graph.request.tile_join = join;
  const Value nodes = g.nodes(data::kHloFeatures, 0.002F);
  const Value tiles = g.dense(kCandidateFeatures, g.weight("tiles", {kWidth, data::kTileFeatures}, 0.1F));
  const bool early = join == plans::TileJoin::early;
  const Value states = early ? g.sum({{Kind::level_node}, {Kind::level_candidate}}, {nodes, tiles}, {}, kSlope)
                             : g.sum({{Kind::level_node}}, {nodes}, {}, kSlope);
  const Value all = g.pooled(g.layer(states), Kind::nodes);
  g.finish(g.add(Join{.inputs = {all, tiles}}), 2 * kWidth, false);
  return bundle_of(g, data::CandidateKind::tile, {}, data::kHloFeatures, data::kHloOpcodes, "normalized");
}

Bundle loops_bundle(bool statements, bool hardware, bool failures) {
  SmallGraph g;
  const int64_t columns = data::program_columns(configs::Representation::loops);
  if (statements) {
    g.graph.statements = true;
    const Value rows = g.sum({{Kind::statements}}, {kNodeFeatures});
    const Value hidden = g.dense(rows, g.weight("features", {kWidth, columns}, 0.1F));
    g.finish(g.pooled(hidden, Kind::statements_of), kWidth, false, failures ? 2 : 1);
  } else {
    const Value states = g.sum({{Kind::level_node}}, {g.nodes(columns, 0.1F)});
    g.finish(g.pooled(g.layer(states), Kind::nodes), kWidth, false);
  }
  auto bundle =
      bundle_of(g, data::CandidateKind::program, configs::Representation::loops, columns, data::kTirTypes, "seconds");
  if (hardware) {
    bundle.manifest["hardware"] = {{"vector_bytes", 32}, {"vector_registers", 16}, {"cores", 8},
                                   {"l1_bytes", 32768},  {"l2_bytes", 1 << 20},    {"l3_bytes", 1 << 24}};
  }
  return bundle;
}

Bundle statement_cost_bundle(int64_t members) {
  SmallGraph g;
  g.graph.statements = true;
  const int64_t columns = data::program_columns(configs::Representation::loops);
  const auto of_statements = [&](int64_t first, int64_t count) {
    std::vector<int64_t> chosen(static_cast<size_t>(count));
    std::iota(chosen.begin(), chosen.end(), first);
    return g.sum({{Kind::statements}}, {g.add(Select{.x = kNodeFeatures, .chosen = chosen})});
  };
  const Value rows = of_statements(data::LoopColumns::shape, 8);
  const Value iterations = of_statements(data::LoopColumns::critical, 1);
  std::vector<Value> scores, selected;
  for (int64_t m = 0; m < members; ++m) {
    const auto name = "members." + std::to_string(m);
    const Value states = g.dense(rows, g.weight(name + ".body", {kWidth, 8}, 0.5F));
    const Value each = g.add(Dense{.x = states, .weight = g.weight(name + ".cost", {1, kWidth})});
    const Value costs = g.add(Add{.inputs = {each, iterations}});
    const Value largest = g.add(PoolStates{.x = costs, .matrix = {Kind::statements_of}, .mode = PoolMode::max});
    const Value over_largest =
        g.add(Add{.inputs = {costs, g.sum({{Kind::program_of}}, {largest})}, .factors = {1.0, -1.0}});
    const Value total = g.pooled(g.add(Activate{.x = over_largest, .mode = ActivateMode::exp}), Kind::statements_of);
    const Value logarithm = g.add(Activate{.x = total, .mode = ActivateMode::log});
    scores.push_back(g.add(Add{.inputs = {logarithm, largest}, .constant = -20.0}));
  }
  g.graph.embedded = members == 1 ? scores.front() : g.add(Join{.inputs = scores});
  g.graph.embedded_columns = members;
  const auto score = [&](Operation operation) {
    g.graph.score.push_back({std::move(operation)});
    return value_of(g.graph.score.size() - 1);
  };
  for (int64_t m = 0; m < members; ++m) selected.push_back(score(Select{.x = kEmbedded, .chosen = {m}}));
  g.graph.scores = members == 1 ? kEmbedded : score(Average{.inputs = selected});
  if (members == 1) g.graph.score.clear();
  return bundle_of(g, data::CandidateKind::program, configs::Representation::loops, columns, data::kTirTypes,
                   "seconds");
}

Bundle trees_bundle() {
  SmallGraph g;
  const Value states = g.sum({{Kind::level_node}}, {g.nodes(data::ProgramColumns::count, 0.1F)});
  g.finish(g.mean(g.layer(states), Kind::nodes), kWidth, false);
  return bundle_of(g, data::CandidateKind::program, configs::Representation::ast, data::ProgramColumns::count,
                   data::kTirTypes, "seconds");
}

std::shared_ptr<const Model> model_of(Bundle bundle, const Options& options) {
  return std::make_shared<const Model>(std::move(bundle), options);
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  float largest = 1.0F;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5F * largest) << i;
}

std::string unchecked_bytes(const Bundle& bundle) {
  inference::NamedArrays arrays;
  for (const auto& [name, weight] : bundle.weights) {
    arrays.emplace_back(name, inference::StoredArray{"F32",
                                                     weight.shape,
                                                     {reinterpret_cast<const char*>(weight.values.data()),
                                                      weight.values.size() * sizeof(float)}});
  }
  return inference::serialize_arrays(arrays, {{"format", "foretime-bundle"},
                                              {"format_version", std::to_string(kBundleVersion)},
                                              {"manifest", bundle.manifest.dump()}});
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

std::vector<int8_t> layouts_of(const data::Group& group, int64_t candidates) {
  std::vector<int8_t> layouts;
  const auto& l = group.layout;
  for (int64_t c = 0; c < candidates; ++c) {
    for (int64_t j = 0; j < l.configurable(); ++j) {
      const auto row = l.rows.subspan((l.row_ptr[j] + l.codes[c * l.configurable() + j]) * data::kLayoutFeatures,
                                      data::kLayoutFeatures);
      layouts.insert(layouts.end(), row.begin(), row.end());
    }
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
    if (line.find(key) != std::string::npos) workload.compute_dag = std::move(line);
  }
  for (auto& line : sample_lines("ansor/records.jsonl.gz", 100000)) {
    if (workload.records.size() < most_records && line.find(key) != std::string::npos)
      workload.records.push_back(std::move(line));
  }
  if (workload.compute_dag.empty() || workload.records.empty()) throw std::runtime_error("samples: no such workload");
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
