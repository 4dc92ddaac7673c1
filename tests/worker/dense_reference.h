#pragma once

#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "data/graphs/group.h"
#include "models/model.h"

namespace foretime::worker::testing {

/// The residual GCN of testing::segmented_settings once more, in plain LibTorch and float64: one candidate at a time,
/// dense adjacency, readout [mean, normalized_sum, configurable_max]. Its parameters are leaves with gradients.
class DenseReference {
 public:
  DenseReference(const configs::ModelSettings& settings, const models::CostModel& model) : settings_(settings) {
    for (const auto& item : model.named_parameters()) {
      values_[item.key()] = item.value().detach().to(torch::kDouble).requires_grad_();
    }
    for (const auto& item : model.named_buffers()) values_[item.key()] = item.value().to(torch::kDouble);
  }

  /// Final states of the subgraph that `nodes` induce: [nodes, hidden].
  torch::Tensor states(const data::Group& group, const std::vector<int64_t>& nodes, int64_t candidate) {
    const auto& graphs = group.graphs;
    const auto count = static_cast<int64_t>(nodes.size());
    std::map<int64_t, int64_t> local;
    for (int64_t i = 0; i < count; ++i) local[nodes[static_cast<size_t>(i)]] = i;
    const auto features =
        torch::from_blob(const_cast<float*>(graphs.node_features.data()), {graphs.nodes(), graphs.feature_count})
            .to(torch::kDouble)
            .index_select(0, torch::tensor(nodes));
    std::vector<int64_t> types;
    for (const int64_t v : nodes) types.push_back(graphs.node_types[v]);
    auto layouts = torch::zeros({count, data::kLayoutFeatures}, torch::kDouble);
    for (int64_t j = 0; j < group.layout.configurable(); ++j) {
      const auto at = local.find(group.layout.nodes[j]);
      if (at == local.end()) continue;
      const int64_t row = group.layout.row_ptr[j] + group.layout.codes[candidate * group.layout.configurable() + j];
      for (int64_t f = 0; f < data::kLayoutFeatures; ++f) {
        layouts[at->second][f] =
            settings_.features.layout_scale * static_cast<double>(group.layout.rows[row * data::kLayoutFeatures + f]);
      }
    }
    auto adjacency = torch::eye(count, torch::kDouble);
    for (int64_t e = 0; e < graphs.edges(); ++e) {
      const auto u = local.find(graphs.edge_source[e]), v = local.find(graphs.edge_target[e]);
      if (u == local.end() || v == local.end()) continue;
      adjacency[u->second][v->second] += 1.0;
      adjacency[v->second][u->second] += 1.0;
    }
    const auto root = adjacency.sum(1).rsqrt();
    adjacency = root.unsqueeze(1) * adjacency * root.unsqueeze(0);

    const auto scaled =
        (features - values_.at("encoder.node_features.offset")) * values_.at("encoder.node_features.scale");
    const auto embedded = values_.at("encoder.node_types.weight").index_select(0, torch::tensor(types));
    auto x = dense("encoder.dense", torch::cat({layouts, scaled, embedded}, 1), settings_.encoder_layers, true);
    for (int64_t i = 0; i < settings_.layers; ++i) {
      const auto mixed = adjacency.matmul(torch::cat({layouts, x}, 1));
      x = x + act(dense("layers." + std::to_string(i) + ".mlp", mixed, 2, false));
    }
    return x;
  }

  torch::Tensor head(const data::Group& group, const torch::Tensor& states) {
    const auto sum = states.sum(0);
    std::vector<int64_t> configurable(group.layout.nodes.begin(), group.layout.nodes.end());
    const auto largest = std::get<0>(states.index_select(0, torch::tensor(configurable)).max(0));
    const auto pooled = torch::cat({states.mean(0), sum / sum.norm(), largest});
    return dense("head", pooled.unsqueeze(0), settings_.head_layers, false)[0][0];
  }

  std::map<std::string, torch::Tensor>& values() { return values_; }

 private:
  torch::Tensor dense(const std::string& name, torch::Tensor x, int64_t layers, bool activate_last) {
    for (int64_t i = 0; i < layers; ++i) {
      const auto layer = name + "." + std::to_string(i);
      x = x.matmul(values_.at(layer + ".weight").t());
      if (values_.contains(layer + ".bias")) x = x + values_.at(layer + ".bias");
      if (i + 1 < layers || activate_last) x = act(x);
    }
    return x;
  }
  torch::Tensor act(const torch::Tensor& x) const { return torch::leaky_relu(x, settings_.leaky_slope); }

  configs::ModelSettings settings_;
  std::map<std::string, torch::Tensor> values_;
};

}  // namespace foretime::worker::testing
