#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "configs/settings.h"
#include "data/group.h"
#include "models/model.h"

/// Every registered model again, written the obvious way: one candidate at a time, joined inputs, dense adjacency. It
/// shares with the models only the names of their parameters.
namespace foretime::testing {

class SlowModel {
 public:
  SlowModel(const configs::ModelSettings& settings, const models::CostModel& model) : settings_(settings) {
    for (const auto& item : model.named_parameters()) values_.insert(item.key(), item.value().detach());
    for (const auto& item : model.named_buffers()) values_.insert(item.key(), item.value());
  }

  torch::Tensor score(const data::Group& group, const std::vector<int64_t>& candidates) const {
    std::vector<torch::Tensor> scores;
    for (const int64_t c : candidates) scores.push_back(score(group, c));
    return torch::stack(scores);
  }

 private:
  torch::Tensor score(const data::Group& group, int64_t candidate) const {
    const auto& graphs = group.graphs;
    const int64_t g = group.kind == data::CandidateKind::program ? candidate : 0;
    const int64_t first = graphs.graph_ptr[g], nodes = graphs.graph_ptr[g + 1] - first;
    const bool tile = group.kind == data::CandidateKind::tile, early = settings_.tile_join == "early";

    auto features = torch::zeros({nodes, graphs.feature_count}, torch::kDouble);
    auto embedded = torch::zeros({nodes, settings_.node_type_embedding}, torch::kDouble);
    for (int64_t v = 0; v < nodes; ++v) {
      for (int64_t f = 0; f < graphs.feature_count; ++f) {
        features[v][f] = static_cast<double>(graphs.node_features[(first + v) * graphs.feature_count + f]);
      }
      embedded[v] = values_["encoder.node_types.weight"][graphs.node_types[first + v]];
    }
    features = transformed(features, "encoder.node_features");
    auto tiles = torch::zeros({1, data::kTileFeatures}, torch::kDouble);
    if (tile) {
      for (int64_t f = 0; f < data::kTileFeatures; ++f) {
        tiles[0][f] = static_cast<double>(group.tile_features[candidate * data::kTileFeatures + f]);
      }
      tiles = transformed(tiles, "encoder.tile_features");
    }
    auto layouts = torch::zeros({nodes, data::kLayoutFeatures}, torch::kDouble);
    for (int64_t j = 0; j < group.layout.configurable(); ++j) {
      const int64_t row = group.layout.row_ptr[j] + group.layout.codes[candidate * group.layout.configurable() + j];
      for (int64_t f = 0; f < data::kLayoutFeatures; ++f) {
        layouts[group.layout.nodes[j]][f] =
            settings_.features.layout_scale * static_cast<double>(group.layout.rows[row * data::kLayoutFeatures + f]);
      }
    }

    std::vector<torch::Tensor> inputs = {features, embedded};
    if (group.kind == data::CandidateKind::layout) inputs.insert(inputs.begin(), layouts);
    if (tile && early) inputs.push_back(tiles.expand({nodes, data::kTileFeatures}));
    auto x = dense("encoder.dense", torch::cat(inputs, 1), settings_.encoder_layers, true);

    auto received = torch::zeros({nodes, nodes}, torch::kDouble);  // [consumer, producer]
    for (int64_t e = graphs.edge_ptr[g]; e < graphs.edge_ptr[g + 1]; ++e) {
      received[graphs.edge_target[e] - first][graphs.edge_source[e] - first] += 1.0;
    }
    const int64_t layers = settings_.type == "mlp" ? 0 : settings_.layers;
    for (int64_t i = 0; i < layers; ++i) {
      x = layer("layers." + std::to_string(i), x, received,
                group.kind == data::CandidateKind::layout ? layouts : torch::Tensor());
    }

    std::vector<torch::Tensor> pooled;
    for (const auto& part : settings_.readout) {
      const bool configurable = part.rfind("configurable_", 0) == 0;
      const auto kind = configurable ? part.substr(13) : part;
      auto chosen = x;
      if (configurable) {
        std::vector<int64_t> ids(group.layout.nodes.begin(), group.layout.nodes.end());
        chosen = x.index_select(0, torch::tensor(ids));
      }
      if (kind == "mean") pooled.push_back(chosen.mean(0));
      if (kind == "sum") pooled.push_back(chosen.sum(0));
      if (kind == "max") pooled.push_back(std::get<0>(chosen.max(0)));
      if (kind == "normalized_sum")
        pooled.push_back(
            torch::nn::functional::normalize(chosen.sum(0), torch::nn::functional::NormalizeFuncOptions().dim(0)));
    }
    if (tile && !early) pooled.push_back(tiles[0]);
    return dense("head", torch::cat(pooled).unsqueeze(0), settings_.head_layers, false)[0][0];
  }

  torch::Tensor layer(const std::string& name, const torch::Tensor& x, const torch::Tensor& received,
                      const torch::Tensor& layouts) const {
    const int64_t nodes = x.size(0);
    const auto looped = received + received.t() + torch::eye(nodes, torch::kDouble);
    const auto root = looped.sum(1).rsqrt();
    const auto symmetric = root.unsqueeze(1) * looped * root.unsqueeze(0);
    torch::Tensor y;
    if (settings_.type == "residual_gcn") {
      const auto joined = layouts.defined() ? torch::cat({layouts, x}, 1) : x;
      return x + act(dense(name + ".mlp", symmetric.matmul(joined), 2, false));
    }
    if (settings_.type == "gcn") {
      y = linear(name + ".linear", symmetric.matmul(x));
    } else {
      const auto mean = [&](const torch::Tensor& a) { return a.matmul(x) / a.sum(1, true).clamp_min(1.0); };
      y = linear(name + ".own", x) + linear(name + ".producers", mean(received)) +
          linear(name + ".consumers", mean(received.t()));
    }
    y = settings_.residual ? x + act(y) : act(y);
    if (settings_.type == "sage" && settings_.l2_normalize) y = y / y.square().sum(1, true).sqrt();
    return y;
  }

  torch::Tensor dense(const std::string& name, torch::Tensor x, int64_t layers, bool activate_last) const {
    for (int64_t i = 0; i < layers; ++i) {
      x = linear(name + "." + std::to_string(i), x);
      if (i + 1 < layers || activate_last) x = act(x);
    }
    return x;
  }
  torch::Tensor linear(const std::string& name, const torch::Tensor& x) const {
    const auto y = x.matmul(values_[name + ".weight"].t());
    return values_.contains(name + ".bias") ? y + values_[name + ".bias"] : y;
  }
  torch::Tensor act(const torch::Tensor& x) const {
    return torch::where(x > 0, x, x * (settings_.activation == "relu" ? 0.0 : settings_.leaky_slope));
  }
  torch::Tensor transformed(const torch::Tensor& x, const std::string& name) const {
    const auto shaped = settings_.features.log ? torch::sign(x) * torch::log(1 + torch::abs(x)) : x;
    return (shaped - values_[name + ".offset"]) * values_[name + ".scale"];
  }

  configs::ModelSettings settings_;
  torch::OrderedDict<std::string, torch::Tensor> values_;
};

}  // namespace foretime::testing
