#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "data/graphs/group.h"
#include "models/layers/layers.h"
#include "tests/models/slow_model.h"

namespace foretime::testing {

/// The nodes that pooling keeps, by counting for each how many go before it.
inline std::vector<int64_t> slow_top_nodes(const std::vector<double>& scores, double ratio) {
  constexpr double kTie = 256 * std::numeric_limits<double>::epsilon();
  const auto nodes = scores.size();
  auto sorted = scores;
  std::sort(sorted.rbegin(), sorted.rend());
  double largest = 0;
  for (const double score : scores) largest = std::max(largest, std::abs(score));
  // Scores between two gaps are one class; class 0 is the best.
  const auto class_of = [&](double score) {
    int64_t gaps = 0;
    for (size_t i = 1; i < nodes && sorted[i] >= score; ++i) gaps += sorted[i - 1] - sorted[i] > kTie * largest ? 1 : 0;
    return gaps;
  };
  const auto wanted = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(ratio * static_cast<double>(nodes) - 1e-7)));
  std::vector<int64_t> kept;
  for (size_t v = 0; v < nodes; ++v) {
    int64_t before = 0;
    for (size_t u = 0; u < nodes; ++u) {
      const auto a = class_of(scores[u]), b = class_of(scores[v]);
      if (a < b || (a == b && u < v)) ++before;
    }
    if (before < wanted) kept.push_back(static_cast<int64_t>(v));
  }
  return kept;
}

/// models::Tpgnn the obvious way: one dense graph at a time, out of which nodes are taken. It shares with the model
/// only the names of its parameters, of which it has copies with gradients of their own.
class SlowTpgnn : SlowLayers {
 public:
  SlowTpgnn(const configs::ModelSettings& settings, const models::CostModel& model)
      : SlowLayers(settings, model, /*gradients=*/true) {}

  torch::Tensor score(const data::Group& group, const std::vector<int64_t>& candidates) const {
    std::vector<torch::Tensor> scores;
    for (const int64_t c : candidates) scores.push_back(score(group.graphs, c));
    return torch::stack(scores);
  }
  torch::Tensor gradient(const std::string& name) const { return values_[name].grad(); }

 private:
  torch::Tensor score(const data::GraphBlock& graphs, int64_t g) const {
    const int64_t first = graphs.graph_ptr[g], nodes = graphs.graph_ptr[g + 1] - first;
    auto x = dense("encoder.dense", inputs(graphs, first, nodes), settings_.encoder_layers, true);
    auto edges = torch::zeros({nodes, nodes}, torch::kDouble);
    for (int64_t e = graphs.edge_ptr[g]; e < graphs.edge_ptr[g + 1]; ++e)
      edges[graphs.edge_target[e] - first][graphs.edge_source[e] - first] += 1.0;

    torch::Tensor summed;
    for (int64_t i = 0; i < settings_.layers; ++i) {
      const auto looped = edges + edges.t() + torch::eye(edges.size(0), torch::kDouble);
      const auto root = looped.sum(1).rsqrt();
      x = act(linear("layers." + std::to_string(i) + ".linear",
                     (root.unsqueeze(1) * looped * root.unsqueeze(0)).matmul(x)));
      const auto& p = values_["pools." + std::to_string(i) + ".weight"];
      const auto scores = x.matmul(p) / p.square().sum().sqrt();
      const auto list = scores.detach().contiguous();
      const auto stay = torch::tensor(slow_top_nodes({list.data_ptr<double>(), list.data_ptr<double>() + list.numel()},
                                                     settings_.tpgnn.pool_ratio));
      x = (x * torch::tanh(scores).unsqueeze(1)).index_select(0, stay);
      edges = edges.index_select(0, stay).index_select(1, stay);
      summed = summed.defined() ? summed + read(x) : read(x);
    }
    return dense("head", summed.unsqueeze(0), settings_.head_layers, false)[0][0];
  }

  torch::Tensor inputs(const data::GraphBlock& graphs, int64_t first, int64_t nodes) const {
    const auto columns =
        models::chosen_columns(settings_.features.columns, data::CandidateKind::program, graphs.feature_count);
    const bool learned = settings_.node_types.vectors == configs::NodeTypeVectors::learned;
    std::vector<torch::Tensor> rows;
    for (int64_t v = first; v < first + nodes; ++v) {
      std::vector<double> row;
      for (const int64_t f : columns)
        row.push_back(static_cast<double>(graphs.node_features[v * graphs.feature_count + f]));
      const auto features = transformed(torch::tensor(row, torch::kDouble), "encoder.node_features");
      rows.push_back(torch::cat(
          {features, values_[learned ? "encoder.node_types.weight" : "encoder.type_vectors"][graphs.node_types[v]]}));
    }
    return torch::stack(rows);
  }

  torch::Tensor read(const torch::Tensor& x) const {
    std::vector<torch::Tensor> parts;
    for (const auto each : settings_.readout) {
      const std::string part = word_of(each);
      if (part == "mean") parts.push_back(x.mean(0));
      if (part == "sum") parts.push_back(x.sum(0));
      if (part == "max") parts.push_back(std::get<0>(x.max(0)));
      if (part == "normalized_sum") parts.push_back(x.sum(0) / x.sum(0).square().sum().sqrt());
    }
    return torch::cat(parts);
  }
};

}  // namespace foretime::testing
