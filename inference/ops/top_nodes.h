#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Pooling of many graphs (Gao and Ji, "Graph U-Nets", arXiv 1905.05178): keeps the ceil(ratio n) nodes of each graph
/// with the largest s = x v / |v| and gives x tanh(s) of those. Scores nearer to each other than `tie` of the graph's
/// largest are tied, and of tied nodes the first stay. Its result names the matrices of what is left: adjacency,
/// normalized_adjacency and kept_nodes.
struct TopNodes {
  static constexpr const char* kName = "top_nodes";
  Value x = {};
  MatrixRef adjacency = {};  // of the nodes
  MatrixRef nodes = {};      // which nodes are of which graph
  WeightRef weight = {};     // v [columns of x]
  double ratio = 1;
  double tie = 0;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("adjacency", o.adjacency);
    f("nodes", o.nodes);
    f("weight", o.weight);
    f("ratio", o.ratio);
    f("tie", o.tie);
  }
  bool operator==(const TopNodes&) const = default;
};

}  // namespace foretime::inference
