#include "data/graphs/validate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/index_range.h"

namespace foretime::data {
namespace {

constexpr int64_t kMaximumNodes = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaximumRows = 256;  // rows for one configurable node: a code is one byte

template <class... Args>
[[noreturn]] void fail_at(const std::string& origin, const char* field, fmt::format_string<Args...> what,
                          Args&&... args) {
  throw DataError("{}: {}: {}", origin, field, fmt::format(what, std::forward<Args>(args)...));
}

class Validator {
 public:
  Validator(const Group& group, const std::string& origin, bool streamed)
      : group_(group), origin_(origin), streamed_(streamed) {}

  void check() const {
    if (group_.candidates < 1) fail("candidates", "{}, expected at least 1", group_.candidates);
    check_graphs();
    switch (group_.kind) {
      case CandidateKind::layout: check_layout(); break;
      case CandidateKind::tile: check_tile(); break;
      case CandidateKind::program: check_programs(); break;
      default: fail("kind", "{}, expected 0, 1 or 2", static_cast<int>(group_.kind));
    }
    validate_runtimes(group_.runtimes.span(), group_.flops.span(), group_.candidates, origin_,
                      group_.kind == CandidateKind::program);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const char* field, fmt::format_string<Args...> what, Args&&... args) const {
    fail_at(origin_, field, what, std::forward<Args>(args)...);
  }

  void expect_size(const char* field, int64_t found, int64_t expected) const {
    if (found != expected) fail(field, "{} values, expected {}", found, expected);
  }

  void expect_finite(const char* field, const Array<float>& values) const {
    const int64_t wrong = first_not_finite(values.span());
    if (wrong >= 0) fail(field, "{} at position {}, expected finite numbers", values[wrong], wrong);
  }

  void expect_pointers(const char* field, const Array<int64_t>& pointers, int64_t last) const {
    if (pointers.size() < 2 || pointers[0] != 0 || pointers[pointers.size() - 1] != last)
      fail(field, "{} values, expected at least 2, from 0 to {}", pointers.size(), last);
    for (int64_t i = 1; i < pointers.size(); ++i)
      if (pointers[i] < pointers[i - 1])
        fail(field, "{} after {}, expected ascending values", pointers[i], pointers[i - 1]);
  }

  void check_graphs() const {
    const GraphBlock& graphs = group_.graphs;
    const int64_t nodes = graphs.nodes(), edges = graphs.edges();
    if (nodes < 1 || nodes > kMaximumNodes) fail("node_types", "{} nodes, expected 1 … {}", nodes, kMaximumNodes);
    expect_pointers("graph_ptr", graphs.graph_ptr, nodes);
    expect_pointers("edge_ptr", graphs.edge_ptr, edges);
    expect_size("edge_ptr", graphs.edge_ptr.size(), graphs.graph_ptr.size());
    expect_size("edge_target", graphs.edge_target.size(), edges);
    if (graphs.feature_count < 0 || graphs.feature_count > (int64_t{1} << 31))
      fail("feature_count", "{}, expected 0 … 2^31", graphs.feature_count);
    if (!streamed_) {
      expect_size("node_features", graphs.node_features.size(), nodes * graphs.feature_count);
      expect_finite("node_features", graphs.node_features);
    }
    if (graphs.node_type_count < 1 || graphs.node_type_count > 256)
      fail("node_type_count", "{}, expected 1 … 256", graphs.node_type_count);
    const uint8_t largest = *std::ranges::max_element(graphs.node_types);
    if (largest >= graphs.node_type_count) fail("node_types", "{}, expected below {}", largest, graphs.node_type_count);
    for (int64_t g = 0; g < graphs.graphs(); ++g) check_edges(g);
  }

  void check_edges(int64_t g) const {
    const GraphBlock& graphs = group_.graphs;
    const int64_t first = entries_of(graphs.graph_ptr, g).first(), last = entries_of(graphs.graph_ptr, g).last();
    for (const int64_t e : entries_of(graphs.edge_ptr, g)) {
      for (const int32_t node : {graphs.edge_source[e], graphs.edge_target[e]})
        if (node < first || node >= last)
          fail("edges", "edge {} ends at node {}, expected {} … {}", e, node, first, last - 1);
    }
  }

  void check_layout() const {
    const LayoutCandidates& layout = group_.layout;
    const int64_t nodes = group_.graphs.nodes(), configurable = layout.configurable();
    expect_size("graph_ptr", group_.graphs.graphs(), 1);
    for (int64_t j = 0; j < configurable; ++j) {
      const int64_t after = j == 0 ? -1 : layout.nodes[j - 1];
      if (layout.nodes[j] <= after || layout.nodes[j] >= nodes)
        fail("layout nodes", "{} after {}, expected ascending ids below {}", layout.nodes[j], after, nodes);
    }
    expect_size("layout row_ptr", layout.row_ptr.size(), configurable + 1);
    if (layout.row_ptr[0] != 0) fail("layout row_ptr", "starts at {}, expected 0", layout.row_ptr[0]);
    for (int64_t j = 0; j < configurable; ++j) {
      const int64_t rows = layout.row_ptr[j + 1] - layout.row_ptr[j];
      if (rows < 1 || rows > kMaximumRows)
        fail("layout row_ptr", "{} rows at configurable node {}, expected 1 … {}", rows, j, kMaximumRows);
    }
    expect_size("layout rows", layout.rows.size(), layout.row_ptr[configurable] * kLayoutFeatures);
    if (configurable > 0 && group_.candidates > std::numeric_limits<int64_t>::max() / configurable)
      fail("candidates", "{} × {} configurable nodes overflow", group_.candidates, configurable);
    if (!streamed_) check_codes();
    for (int64_t i = 0; i < group_.node_splits.size(); ++i) {
      const int64_t split = group_.node_splits[i], before = i == 0 ? 0 : group_.node_splits[i - 1];
      if (split < before || split > nodes)
        fail("node_splits", "{} after {}, expected ascending values up to {}", split, before, nodes);
    }
  }

  void check_codes() const {
    const LayoutCandidates& layout = group_.layout;
    const int64_t configurable = layout.configurable();
    expect_size("layout codes", layout.codes.size(), group_.candidates * configurable);
    std::vector<uint8_t> largest(configurable);
    for (int64_t j = 0; j < configurable; ++j) largest[j] = layout.row_ptr[j + 1] - layout.row_ptr[j] - 1;
    for (int64_t c = 0; c < group_.candidates; ++c) {
      const uint8_t* codes = layout.codes.data() + c * configurable;
      unsigned wrong = 0;
      for (int64_t j = 0; j < configurable; ++j) wrong |= (codes[j] > largest[j]);
      if (wrong != 0) fail("layout codes", "candidate {} has a code past its node's table of rows", c);
    }
  }

  void check_tile() const {
    expect_size("graph_ptr", group_.graphs.graphs(), 1);
    if (group_.candidates > std::numeric_limits<int64_t>::max() / kTileFeatures)
      fail("candidates", "{} × {} tile features overflow", group_.candidates, kTileFeatures);
    expect_size("tile_features", group_.tile_features.size(), group_.candidates * kTileFeatures);
    expect_finite("tile_features", group_.tile_features);
  }

  void check_programs() const {
    expect_size("graph_ptr", group_.graphs.graphs(), group_.candidates);
    if (!group_.candidate_ids.empty()) expect_size("candidate_ids", group_.candidate_ids.size(), group_.candidates);
  }

  const Group& group_;
  const std::string& origin_;
  bool streamed_;
};

}  // namespace

void validate_group(const Group& group, const std::string& origin) { Validator(group, origin, false).check(); }

void validate_all_but_streamed(const Group& group, const std::string& origin) {
  Validator(group, origin, true).check();
}

void check_runtimes(std::span<const double> runtimes, bool may_be_unlabelled, const std::string& origin,
                    bool may_fail) {
  size_t zeros = 0, failed = 0;
  for (size_t c = 0; c < runtimes.size(); ++c) {
    const bool fails = may_fail && std::isinf(runtimes[c]);
    if ((!fails && !std::isfinite(runtimes[c])) || runtimes[c] < 0.0)
      throw DataError("{}: run time {} of candidate {}, expected a positive number", origin, runtimes[c], c);
    zeros += runtimes[c] == 0.0;
    failed += fails;
  }
  if (failed != 0 && failed == runtimes.size())
    throw DataError("{}: all {} programs failed, expected one that ran", origin, failed);
  if (zeros != 0 && !(may_be_unlabelled && zeros == runtimes.size()))
    throw DataError("{}: {} of {} run times are 0, expected none{}", origin, zeros, runtimes.size(),
                    may_be_unlabelled ? " (or all, in a file without labels)" : "");
}

void validate_runtimes(std::span<const double> runtimes, std::span<const double> flops, int64_t candidates,
                       const std::string& origin, bool may_fail) {
  const auto expect_size = [&](const char* field, size_t found) {
    if (std::cmp_not_equal(found, candidates)) fail_at(origin, field, "{} values, expected {}", found, candidates);
  };
  expect_size("runtimes", runtimes.size());
  check_runtimes(runtimes, true, origin + ": runtimes", may_fail);
  if (!flops.empty()) expect_size("flops", flops.size());
  for (size_t i = 0; i < flops.size(); ++i)
    if (!std::isfinite(flops[i])) fail_at(origin, "flops", "{} at position {}, expected finite numbers", flops[i], i);
}

int64_t first_not_finite(std::span<const float> values) {
  // Whole blocks of a fixed length without a branch, which compilers vectorise; the position is looked for only where
  // there is one.
  constexpr size_t kBlock = 512;
  constexpr uint32_t kExponent = 0x7f800000;
  size_t first = 0;
  for (; first + kBlock <= values.size(); first += kBlock) {
    uint32_t largest = 0;
    for (size_t i = 0; i < kBlock; ++i)
      largest = std::max(largest, std::bit_cast<uint32_t>(values[first + i]) & kExponent);
    if (largest == kExponent) break;
  }
  for (; first < values.size(); ++first)
    if (!std::isfinite(values[first])) return first;
  return -1;
}

}  // namespace foretime::data
