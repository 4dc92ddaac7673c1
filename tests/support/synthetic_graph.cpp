#include "tests/support/synthetic_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/counter_random.h"
#include "base/error.h"
#include "data/files/packed.h"
#include "data/graphs/schema.h"
#include "tests/support/layout_npz.h"

namespace foretime::testing {
namespace {

using namespace data;

constexpr int64_t kLayoutDimensions = 6;  // size of a layout; 18 = output, input, kernel × 6
constexpr int64_t kMostDistinctRows = 9;  // distinct layout rows of a node in any published file
constexpr int64_t kOpcodes = 120;
constexpr int64_t kConvolution = 27;  // the opcode whose configurable nodes have a kernel
constexpr int64_t kShapeColumn = 21;  // node features: six dimensions, their sum, their product
constexpr int64_t kOtherColumns[] = {2, 31, 40, 95, 107, 113};
constexpr double kNoise = 0.01;
using Row = std::array<int8_t, kLayoutFeatures>;

/// SplitMix64 (Steele, Lea, Flood 2014): the same sequence everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    const uint64_t bits = mix(state_);
    state_ += 0x9E3779B97F4A7C15U;
    return bits;
  }
  double uniform() { return (next() >> 11) * 0x1p-53; }
  /// 0 … bound - 1; `bound` is far below 2^64, so the bias of the product is not seen.
  int64_t below(int64_t bound) { return std::min<int64_t>(uniform() * bound, bound - 1); }
  double normal() { return std::sqrt(-2.0 * std::log(1.0 - uniform())) * std::cos(2.0 * std::numbers::pi * uniform()); }

 private:
  uint64_t state_;
};

void check(const SynthSettings& settings, const std::string& name) {
  const auto fail = [&](const char* what, int64_t found, int64_t from, int64_t to) {
    throw DataError("{}: {} {}, expected {} … {}", name, found, what, from, to);
  };
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (settings.nodes < 2 || settings.nodes > kMost) fail("nodes", settings.nodes, 2, kMost);
  if (settings.configurable < 1 || settings.configurable > settings.nodes)
    fail("configurable nodes", settings.configurable, 1, settings.nodes);
  if (settings.candidates < 1 || settings.candidates > kMost) fail("configurations", settings.candidates, 1, kMost);
}

std::vector<int32_t> choose_configurable(const SynthSettings& settings, Random& random) {
  std::vector<int32_t> chosen;
  chosen.reserve(settings.configurable);
  int64_t wanted = settings.configurable;
  for (int64_t v = 0; v < settings.nodes && wanted > 0; ++v) {
    if (random.below(settings.nodes - v) >= wanted) continue;
    chosen.push_back(v);
    --wanted;
  }
  return chosen;
}

/// Each node consumes one or two of the nodes shortly before it; half of the configurable nodes also consume the one
/// before.
void make_edges(GraphBlock& graph, const SynthSettings& settings, const std::vector<int32_t>& configurable,
                Random& random) {
  std::vector<std::pair<int32_t, int32_t>> edges;  // consumer, producer
  for (int64_t v = 1; v < settings.nodes; ++v) {
    for (int64_t i = random.below(2); i >= 0; --i) {
      const int64_t reach = random.below(10) == 0 ? v : std::min<int64_t>(v, 8);
      edges.emplace_back(v, v - 1 - random.below(reach));
    }
  }
  for (size_t j = 1; j < configurable.size(); ++j)
    if (random.below(2) == 0) edges.emplace_back(configurable[j], configurable[j - 1]);
  std::ranges::sort(edges);
  std::vector<int32_t> source, target;
  source.reserve(edges.size());
  target.reserve(edges.size());
  for (const auto& [consumer, producer] : edges) {
    source.push_back(producer);
    target.push_back(consumer);
  }
  graph.edge_ptr = std::vector<int64_t>{0, std::ssize(edges)};
  graph.edge_source = std::move(source);
  graph.edge_target = std::move(target);
}

void make_nodes(GraphBlock& graph, const SynthSettings& settings, const std::vector<int32_t>& configurable,
                Random& random) {
  std::vector<uint8_t> types(settings.nodes);
  for (uint8_t& type : types) type = random.below(kOpcodes);
  for (const int32_t v : configurable) types[v] = kConvolution + random.below(4);
  std::vector<float> features(settings.nodes * kHloFeatures);
  for (int64_t v = 0; v < settings.nodes; ++v) {
    float* row = features.data() + v * kHloFeatures;
    const int64_t rank = 2 + random.below(3);
    double sum = 0.0, product = 1.0;
    for (int64_t d = 0; d < rank; ++d) {
      const double size = std::ldexp(1.0, random.below(8));
      row[kShapeColumn + d] = size;
      sum += size;
      product *= size;
    }
    row[kShapeColumn + kLayoutDimensions] = sum;
    row[kShapeColumn + kLayoutDimensions + 1] = product;
    for (const int64_t column : kOtherColumns) row[column] = random.below(5);
  }
  graph.feature_count = kHloFeatures;
  graph.node_type_count = kHloOpcodes;
  graph.graph_ptr = std::vector<int64_t>{0, settings.nodes};
  graph.node_types = std::move(types);
  graph.node_features = std::move(features);
}

Row random_row(int64_t rank, bool kernel, Random& random) {
  Row row;
  row.fill(-1);
  for (int64_t tensor = 0; tensor < (kernel ? 3 : 2); ++tensor) {
    int8_t* order = row.data() + tensor * kLayoutDimensions;
    std::iota(order, order + rank, int8_t{0});
    for (int64_t d = rank - 1; d > 0; --d) std::swap(order[d], order[random.below(d + 1)]);
  }
  return row;
}

/// Cost factor of a layout: how far the output's order is from the one that the opcode likes, and from the input's.
double layout_factor(const Row& row, uint8_t opcode) {
  double factor = 1.0;
  for (int64_t d = 0; d < kLayoutDimensions && row[d] >= 0; ++d) {
    const int8_t output = row[d], input = row[kLayoutDimensions + d];
    factor += 0.5 * std::abs(output - (opcode % 2 == 0 ? d : 1 - d)) + (output != input ? 0.3 : 0.0);
  }
  return factor;
}

/// Layout tables, and the run times that they imply.
class Layouts {
 public:
  Layouts(const GraphBlock& graph, std::vector<int32_t> configurable, Random& random)
      : nodes_(std::move(configurable)) {
    row_ptr_.push_back(0);
    for (const int32_t v : nodes_) {
      const float* features = graph.node_features.data() + v * kHloFeatures;
      int64_t rank = 0;
      while (rank < kLayoutDimensions && features[kShapeColumn + rank] > 0) ++rank;
      const size_t first = rows_.size();
      const size_t wanted = 2 + random.below(kMostDistinctRows - 1);
      for (int64_t tries = 0; tries < 4 * kMostDistinctRows && rows_.size() - first < wanted; ++tries) {
        const Row row = random_row(rank, graph.node_types[v] == kConvolution, random);
        if (std::find(rows_.begin() + first, rows_.end(), row) == rows_.end()) rows_.push_back(row);
      }
      sizes_.push_back(2000.0 * std::sqrt(features[kShapeColumn + kLayoutDimensions + 1]));
      // Code 0 is the commonest choice below; as a compiler's default it is the best when looked at alone.
      const auto by_cost = [&](const Row& a, const Row& b) {
        return layout_factor(a, graph.node_types[v]) < layout_factor(b, graph.node_types[v]);
      };
      const auto begin = rows_.begin() + first;
      std::iter_swap(begin, std::min_element(begin, rows_.end(), by_cost));
      for (size_t i = first; i < rows_.size(); ++i)
        costs_.push_back(sizes_.back() * layout_factor(rows_[i], graph.node_types[v]));
      row_ptr_.push_back(rows_.size());
    }
    for (int64_t e = 0; e < graph.edges(); ++e) {
      const int64_t from = index_of(graph.edge_source[e]), to = index_of(graph.edge_target[e]);
      if (from >= 0 && to >= 0) pairs_.emplace_back(from, to);
    }
  }

  int64_t rows(int64_t j) const { return row_ptr_[j + 1] - row_ptr_[j]; }

  double cost(const uint8_t* codes) const {
    double sum = 0.0;
    for (size_t j = 0; j < nodes_.size(); ++j) sum += costs_[row_ptr_[j] + codes[j]];
    for (const auto& [from, to] : pairs_)
      if (output_differs(from, codes[from], to, codes[to])) sum += sizes_[from];
    return sum;
  }

  /// Nodes and tables, no codes.
  void copy_into(LayoutCandidates& layout) const {
    std::vector<int8_t> rows;
    rows.reserve(rows_.size() * kLayoutFeatures);
    for (const Row& row : rows_) rows.insert(rows.end(), row.begin(), row.end());
    layout.nodes = nodes_;
    layout.row_ptr = row_ptr_;
    layout.rows = std::move(rows);
  }

 private:
  int64_t index_of(int32_t node) const {
    const auto at = std::ranges::lower_bound(nodes_, node);
    return at != nodes_.end() && *at == node ? at - nodes_.begin() : -1;
  }
  bool output_differs(int64_t a, uint8_t code_a, int64_t b, uint8_t code_b) const {
    const Row& x = rows_[row_ptr_[a] + code_a];
    const Row& y = rows_[row_ptr_[b] + code_b];
    return x[0] != y[0];
  }

  std::vector<int32_t> nodes_;
  std::vector<int64_t> row_ptr_;
  std::vector<Row> rows_;
  std::vector<double> costs_;                       // [rows] ns
  std::vector<double> sizes_;                       // [configurable] ns
  std::vector<std::pair<int64_t, int64_t>> pairs_;  // configurable neighbours
};

/// A group without its codes, and what makes them: each candidate's are a function of the seed and its number, so that
/// no candidate need be kept.
class Synthesis {
 public:
  Synthesis(const SynthSettings& settings, const std::string& name) : settings_(settings) {
    check(settings, name);
    Random random(settings.seed);
    group_.name = name;
    group_.kind = CandidateKind::layout;
    group_.unit = RuntimeUnit::nanoseconds;
    group_.candidates = settings.candidates;
    group_.node_splits = std::vector<int64_t>{0, settings.nodes};
    std::vector<int32_t> configurable = choose_configurable(settings, random);
    make_edges(group_.graphs, settings, configurable, random);
    make_nodes(group_.graphs, settings, configurable, random);
    layouts_.emplace(group_.graphs, std::move(configurable), random);
    layouts_->copy_into(group_.layout);
    candidate_seed_ = random.next();
  }

  /// Returns the group without codes and run times.
  const Group& group() const { return group_; }

  /// Makes the codes of a candidate. About one candidate in 50 repeats an earlier one; each other one changes a
  /// different share of the nodes.
  void make_codes(int64_t candidate, std::span<uint8_t> codes) const {
    Random random = random_of(candidate);
    while (candidate > 0 && random.below(50) == 0) {
      candidate = random.below(candidate);
      random = random_of(candidate);
    }
    const double changed = random.uniform();
    for (size_t j = 0; j < codes.size(); ++j) {
      const double draw = random.uniform();
      // The lower part of one draw chooses the row where the draw says that there is a change at all.
      const int64_t rows = layouts_->rows(j);
      codes[j] = draw < changed ? static_cast<uint8_t>(std::min<int64_t>(rows - 1, draw / changed * rows)) : uint8_t{0};
    }
  }

  /// Returns the run time of a candidate, with separate noise for repeated candidates too.
  double runtime(int64_t candidate, std::span<const uint8_t> codes) const {
    Random random(candidate_seed_ ^ ~static_cast<uint64_t>(candidate));
    const double base = 1000.0 * settings_.nodes;  // time of the nodes that no layout changes
    return std::max(1.0, std::round((base + layouts_->cost(codes.data())) * std::exp(kNoise * random.normal())));
  }

  /// Returns the run times of all candidates, and passes the codes of each to `take`.
  std::vector<double> runtimes(const std::function<void(std::span<const uint8_t> codes)>& take) const {
    std::vector<double> runtimes(settings_.candidates);
    std::vector<uint8_t> codes(settings_.configurable);
    for (int64_t c = 0; c < settings_.candidates; ++c) {
      make_codes(c, codes);
      runtimes[c] = runtime(c, codes);
      take(codes);
    }
    return runtimes;
  }

 private:
  Random random_of(int64_t candidate) const { return Random(Random(candidate_seed_ + candidate).next()); }

  SynthSettings settings_;
  Group group_;
  std::optional<Layouts> layouts_;
  uint64_t candidate_seed_ = 0;
};

}  // namespace

Group synthesize_layout_group(const SynthSettings& settings, const std::string& name, const LayoutSink& sink) {
  const Synthesis synthesis(settings, name);
  Group group = synthesis.group();
  sink.node_features(group.graphs.node_features.span(), kHloFeatures);
  group.graphs.node_features = {};
  group.runtimes =
      synthesis.runtimes([&](std::span<const uint8_t> codes) { sink.codes(codes, settings.configurable); });
  return group;
}

Group synthesize_layout_group(const SynthSettings& settings, const std::string& name) {
  return read_whole([&](const LayoutSink& sink) { return synthesize_layout_group(settings, name, sink); });
}

void write_synthetic(const std::filesystem::path& file, const SynthSettings& settings) {
  const std::string name = file.stem().string(), extension = file.extension().string();
  if (extension != ".npz" && extension != ".foretime")
    throw DataError("{}: extension '{}', expected .npz or .foretime", file.string(), extension);
  if (extension == ".foretime") {
    PackedWriter writer(file);
    writer.add_streamed(name, [&](const LayoutSink& sink) { return synthesize_layout_group(settings, name, sink); });
    writer.finish();
    return;
  }
  const Synthesis synthesis(settings, name);
  Group group = synthesis.group();
  group.runtimes = synthesis.runtimes([](std::span<const uint8_t>) {});
  std::vector<uint8_t> codes(settings.configurable);
  write_layout_npz(file, group, [&](int64_t candidate) {
    synthesis.make_codes(candidate, codes);
    return codes.data();
  });
}

}  // namespace foretime::testing
