#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <torch/nn.h>
#include <torch/types.h>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "models/model.h"

namespace foretime::testing {

/// Layers of models that are written the obvious way, over copies of a model's parameters and buffers.
class SlowLayers {
 protected:
  SlowLayers(const configs::ModelSettings& settings, const models::CostModel& model, bool gradients)
      : settings_(settings) {
    for (const auto& item : model.named_parameters())
      values_.insert(item.key(), item.value().detach().clone().requires_grad_(gradients));
    for (const auto& item : model.named_buffers()) values_.insert(item.key(), item.value());
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
    return torch::where(x > 0, x,
                        x * (settings_.activation == configs::Activation::relu ? 0.0 : settings_.leaky_slope));
  }
  torch::Tensor transformed(const torch::Tensor& x, const std::string& name) const {
    const auto shaped = settings_.features.log ? torch::sign(x) * torch::log(1 + torch::abs(x)) : x;
    return (shaped - values_[name + ".offset"]) * values_[name + ".scale"];
  }

  configs::ModelSettings settings_;
  torch::OrderedDict<std::string, torch::Tensor> values_;
};

/// Every registered model again, written the obvious way: one candidate at a time, joined inputs, dense adjacency. It
/// shares with the models only the names of their parameters.
class SlowModel : SlowLayers {
 public:
  SlowModel(const configs::ModelSettings& settings, const models::CostModel& model)
      : SlowLayers(settings, model, /*gradients=*/false) {}

  torch::Tensor score(const data::Group& group, const std::vector<int64_t>& candidates) const {
    std::vector<torch::Tensor> rows;
    for (const int64_t c : candidates) rows.push_back(pooled(group, c));
    auto x = torch::stack(rows);
    if (settings_.candidate_norm) x = (x - x.mean(0)) / (x.var(0, false) + 1e-5).sqrt();
    if (settings_.candidate_attention) {
      const auto weights = torch::softmax(x / torch::exp(values_["candidates.log_temperature"]), 0);
      x = torch::cat({x, static_cast<double>(candidates.size()) * weights * x}, 1);
    }
    return dense("head", x, settings_.head_layers, false).squeeze(1);
  }

 private:
  torch::Tensor pooled(const data::Group& group, int64_t candidate) const {
    const auto& graphs = group.graphs;
    const int64_t g = group.kind == data::CandidateKind::program ? candidate : 0;
    const int64_t first = graphs.graph_ptr[g], nodes = graphs.graph_ptr[g + 1] - first;
    const bool tile = group.kind == data::CandidateKind::tile, early = settings_.tile_join == configs::TileJoin::early;

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
    torch::Tensor layouts;
    if (group.kind == data::CandidateKind::layout) layouts = layouts_of(group, candidate, nodes);
    std::vector<torch::Tensor> inputs = {features, embedded};
    if (settings_.collection_embedding > 0) {
      const auto vector = values_["encoder.collections.weight"][static_cast<int64_t>(group.collection)];
      inputs.push_back(vector.expand({nodes, vector.size(0)}));
    }
    if (layouts.defined()) inputs.insert(inputs.begin(), layouts);
    if (tile && early) inputs.push_back(tiles.expand({nodes, data::kTileFeatures}));
    const bool preactivated = settings_.type == configs::ModelType::preactivated_gcn;
    auto x = dense("encoder.dense", torch::cat(inputs, 1), settings_.encoder_layers, !preactivated);
    if (settings_.layout_gate && layouts.defined()) {
      const std::vector<torch::Tensor> others(inputs.begin() + 1, inputs.end());
      for (int64_t v = 0; v < nodes; ++v) {
        if (!configurable(group, v)) continue;
        const auto gate = torch::tanh(linear("encoder.layout_gate", torch::cat(others, 1)[v]));
        x = x.index_add(0, torch::tensor({v}),
                        (gate * values_["encoder.layout_effect.weight"].matmul(layouts[v])).unsqueeze(0));
      }
    }

    auto received = torch::zeros({nodes, nodes}, torch::kDouble);  // [consumer, producer]
    for (int64_t e = graphs.edge_ptr[g]; e < graphs.edge_ptr[g + 1]; ++e) {
      received[graphs.edge_target[e] - first][graphs.edge_source[e] - first] += 1.0;
    }
    std::vector<std::string> types(
        static_cast<size_t>(settings_.type == configs::ModelType::mlp ? 0 : settings_.layers), word_of(settings_.type));
    if (settings_.type == configs::ModelType::stacked) {
      types.clear();
      for (const auto type : settings_.stacked.convolutions) types.push_back(word_of(type));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const auto number = std::to_string(i);
      auto y = convolution(types[i], "layers." + number, x, received, layouts);
      if (settings_.norm == configs::Norm::layer) {
        y = (y - y.mean(1, true)) / (y.var(1, false, true) + 1e-5).sqrt() * values_["norms." + number + ".weight"] +
            values_["norms." + number + ".bias"];
      } else if (settings_.norm == configs::Norm::batch) {  // as in evaluation
        y = (y - values_["norms." + number + ".running_mean"]) /
                (values_["norms." + number + ".running_variance"] + 1e-5).sqrt() *
                values_["norms." + number + ".weight"] +
            values_["norms." + number + ".bias"];
      }
      if (preactivated) {
        x = x + y;
        continue;
      }
      x = settings_.residual || types[i] == "residual_gcn" ? x + act(y) : act(y);
      if (settings_.l2_normalize && types[i] != "residual_gcn") x = x / x.square().sum(1, true).sqrt();
    }
    if (preactivated) x = act(x);

    std::vector<torch::Tensor> pooled;
    for (const auto each : settings_.readout) {
      const std::string part = word_of(each);
      const bool configurable = part.rfind("configurable_", 0) == 0, tied = part.rfind("decision_", 0) == 0;
      const auto kind = configurable ? part.substr(13) : tied ? part.substr(9) : part;
      auto chosen = x;
      if (tied) {
        pooled.push_back(of_decisions(group, x, kind));
        continue;
      }
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
    return torch::cat(pooled);
  }

  /// The mean over the nodes of each decision, then the sum or mean of these: two nodes are one decision where every
  /// two candidates agree at both or at neither.
  static torch::Tensor of_decisions(const data::Group& group, const torch::Tensor& x, const std::string& kind) {
    const auto& layout = group.layout;
    const auto code = [&](int64_t c, int64_t j) { return layout.codes[c * layout.configurable() + j]; };
    const auto tied = [&](int64_t i, int64_t j) {
      for (int64_t a = 0; a < group.candidates; ++a) {
        for (int64_t b = 0; b < group.candidates; ++b) {
          if ((code(a, i) == code(b, i)) != (code(a, j) == code(b, j))) return false;
        }
      }
      return true;
    };
    std::vector<std::vector<int64_t>> decisions;
    for (int64_t j = 0; j < layout.configurable(); ++j) {
      auto found = std::find_if(decisions.begin(), decisions.end(), [&](const auto& d) { return tied(d[0], j); });
      if (found == decisions.end()) found = decisions.insert(decisions.end(), std::vector<int64_t>());
      found->push_back(j);
    }
    std::vector<torch::Tensor> means;
    for (const auto& decision : decisions) {
      auto sum = torch::zeros({x.size(1)}, torch::kDouble);
      for (const int64_t j : decision) sum = sum + x[layout.nodes[j]];
      means.push_back(sum / static_cast<double>(decision.size()));
    }
    // As the plan has it: the mean is over decisions, by their weights.
    const auto all = torch::stack(means);
    if (kind == "mean") return all.mean(0);
    const auto options = torch::nn::functional::NormalizeFuncOptions().dim(0);
    return kind == "sum" ? all.sum(0) : torch::nn::functional::normalize(all.sum(0), options);
  }

  static bool configurable(const data::Group& group, int64_t node) {
    const auto& nodes = group.layout.nodes;
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  }

  torch::Tensor layouts_of(const data::Group& group, int64_t candidate, int64_t nodes) const {
    std::vector<torch::Tensor> layout_of(static_cast<size_t>(nodes));
    for (int64_t j = 0; j < group.layout.configurable(); ++j) {
      const int64_t row = group.layout.row_ptr[j] + group.layout.codes[candidate * group.layout.configurable() + j];
      auto values = torch::zeros({data::kLayoutFeatures}, torch::kDouble);
      for (int64_t f = 0; f < data::kLayoutFeatures; ++f)
        values[f] = static_cast<double>(group.layout.rows[row * data::kLayoutFeatures + f]);
      layout_of[static_cast<size_t>(group.layout.nodes[j])] = layout_columns(values);
    }
    const auto none = torch::zeros_like(layout_columns(torch::zeros({data::kLayoutFeatures}, torch::kDouble)));
    for (auto& row : layout_of) row = row.defined() ? row : none;
    return torch::stack(layout_of);
  }

  torch::Tensor layout_columns(const torch::Tensor& values) const {
    if (settings_.features.layout == configs::LayoutFeatures::learned_scale)
      return values * values_["encoder.layout_scale"];
    if (settings_.features.layout != configs::LayoutFeatures::embedding)
      return values * settings_.features.layout_scale;
    std::vector<torch::Tensor> vectors;
    for (int64_t f = 0; f < data::kLayoutFeatures; ++f)
      vectors.push_back(values_["encoder.layout_codes.weight"][8 * f + 1 + values[f].item<int64_t>()]);
    return torch::cat(vectors);
  }

  /// `received` [consumer, producer] counts edges.
  torch::Tensor convolution(const std::string& type, const std::string& name, const torch::Tensor& x,
                            const torch::Tensor& received, const torch::Tensor& layouts) const {
    const int64_t nodes = x.size(0);
    const auto both = received + received.t();
    if (type == "residual_gcn" || type == "gcn") {
      const auto looped = both + torch::eye(nodes, torch::kDouble);
      const auto root = looped.sum(1).rsqrt();
      const auto symmetric = root.unsqueeze(1) * looped * root.unsqueeze(0);
      if (type == "gcn") return linear(name + ".linear", symmetric.matmul(x));
      return dense(name + ".mlp", symmetric.matmul(layouts.defined() ? torch::cat({layouts, x}, 1) : x), 2, false);
    }
    if (type == "chebnet") return chebyshev(name, x, both);
    if (type == "preactivated_gcn") {
      const auto identity = torch::eye(nodes, torch::kDouble);
      const auto looped = received.t() + identity;  // [producer, consumer]
      const auto n = looped / looped.sum(1, true);
      return dense(name + ".mlp", (n + n.t() + identity).matmul(act(x)), 2, false);
    }
    if (type == "sage") {
      auto y = linear(name + ".own", x);
      if (settings_.sage.directions == configs::Directions::together)
        return y + linear(name + ".neighbours", aggregated(both, x));
      return y + linear(name + ".producers", aggregated(received, x)) +
             linear(name + ".consumers", aggregated(received.t(), x));
    }
    const auto directions = type == "gin"   ? settings_.gin.directions
                            : type == "gat" ? settings_.gat.directions
                                            : settings_.transformer.directions;
    if (directions == configs::Directions::together) return undirected(type, name, x, both);
    return undirected(type, name + ".producers", x, received) + undirected(type, name + ".consumers", x, received.t());
  }

  torch::Tensor undirected(const std::string& type, const std::string& name, const torch::Tensor& x,
                           const torch::Tensor& edges) const {
    const int64_t nodes = x.size(0);
    if (type == "gin") return dense(name + ".mlp", (1 + values_[name + ".epsilon"]) * x + edges.matmul(x), 2, false);
    const bool gat = type == "gat";
    const int64_t heads = gat ? settings_.gat.heads : settings_.transformer.heads, width = settings_.hidden / heads;
    const auto counts = gat ? edges + torch::eye(nodes, torch::kDouble) : edges;
    const auto z = linear(name + (gat ? ".linear" : ".value"), x);
    auto result = torch::zeros({nodes, settings_.hidden}, torch::kDouble);
    const auto query = gat ? z : linear(name + ".query", x), key = gat ? z : linear(name + ".key", x);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < nodes; ++i) {
        auto sum = torch::zeros({}, torch::kDouble), weighted = torch::zeros({width}, torch::kDouble);
        for (int64_t j = 0; j < nodes; ++j) {
          if (counts[i][j].item<double>() == 0) continue;
          const auto qi = query[i].narrow(0, h * width, width), kj = key[j].narrow(0, h * width, width);
          const auto score =
              gat ? torch::leaky_relu(values_[name + ".target"][h].dot(qi) + values_[name + ".source"][h].dot(kj), 0.2)
                  : qi.dot(kj) / std::sqrt(static_cast<double>(width));
          const auto weight = counts[i][j] * torch::exp(score);
          sum = sum + weight;
          weighted = weighted + weight * z[j].narrow(0, h * width, width);
        }
        if (sum.item<double>() > 0) result[i].narrow(0, h * width, width) = weighted / sum;
      }
    }
    return gat ? result + values_[name + ".bias"] : result + linear(name + ".own", x);
  }

  torch::Tensor chebyshev(const std::string& name, const torch::Tensor& x, const torch::Tensor& both) const {
    const int64_t nodes = x.size(0);
    const auto degree = both.sum(1);
    const auto root = torch::where(degree > 0, degree.clamp_min(1).rsqrt(), torch::zeros_like(degree));
    const auto identity = torch::eye(nodes, torch::kDouble);
    const auto laplacian = identity - root.unsqueeze(1) * both * root.unsqueeze(0);
    // With λmax = 2 a node without edges gets nothing: L̃ = L - I is -D^-½ A D^-½.
    const auto scaled = laplacian - identity;
    std::vector<torch::Tensor> terms = {x, scaled.matmul(x)};
    for (int64_t k = 2; k < settings_.chebnet.order; ++k)
      terms.push_back(2 * scaled.matmul(terms.back()) - terms[terms.size() - 2]);
    auto y = torch::zeros({}, torch::kDouble);
    for (int64_t k = 0; k < settings_.chebnet.order; ++k)
      y = y + linear(name + ".terms." + std::to_string(k), terms[static_cast<size_t>(k)]);
    return y;
  }

  torch::Tensor aggregated(const torch::Tensor& counts, const torch::Tensor& x) const {
    if (settings_.sage.aggregation == configs::Aggregation::sum) return counts.matmul(x);
    if (settings_.sage.aggregation == configs::Aggregation::mean)
      return counts.matmul(x) / counts.sum(1, true).clamp_min(1.0);
    auto result = torch::zeros_like(x);
    for (int64_t i = 0; i < x.size(0); ++i) {
      const auto neighbours = (counts[i] > 0).nonzero().squeeze(1);
      if (neighbours.numel() > 0) result[i] = std::get<0>(x.index_select(0, neighbours).max(0));
    }
    return result;
  }
};

}  // namespace foretime::testing
