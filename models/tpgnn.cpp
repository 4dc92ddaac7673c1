#include "models/tpgnn.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/autocast.h"
#include "models/registry.h"

namespace foretime::models {
namespace {

const InputSchema& checked(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (schema.kind != data::CandidateKind::program) {
    throw ModelError(
        "model.type: tpgnn, with layout or tile data; expected programs (data.format): its pooling ranks the nodes of "
        "each candidate's own graph");
  }
  if (settings.norm != "none") {
    throw ModelError(
        fmt::format("model.norm: {}, with model.type tpgnn, which has none; set it to none", settings.norm));
  }
  const auto at_least = [](int64_t least, int64_t found, const char* setting) {
    if (found < least) throw ModelError(fmt::format("{}: {}, expected at least {}", setting, found, least));
  };
  at_least(1, settings.hidden, "model.hidden");
  at_least(1, settings.layers, "model.layers");
  at_least(1, settings.head_layers, "model.head_layers");
  return schema;
}

}  // namespace

Tpgnn::Tpgnn(const configs::ModelSettings& settings, const InputSchema& schema)
    : schema_(checked(settings, schema)), activation_(settings), readout_(settings.readout, schema.kind) {
  encoder_ = register_module("encoder", std::make_shared<Encoder>(settings, schema, activation_));
  const auto layers = register_module("layers", torch::nn::ModuleList()),
             pools = register_module("pools", torch::nn::ModuleList());
  for (int64_t i = 0; i < settings.layers; ++i) {
    const int64_t width = i == 0 ? encoder_->width() : settings.hidden;
    convolutions_.push_back(std::make_shared<GcnConvolution>(width, settings.hidden));
    pools_.push_back(std::make_shared<TopKPool>(settings.hidden, settings.pool_ratio));
    layers->push_back(convolutions_.back());
    pools->push_back(pools_.back());
  }
  std::vector<int64_t> widths = {readout_.width(settings.hidden)};
  for (int64_t i = 1; i < settings.head_layers; ++i) widths.push_back(std::max<int64_t>(1, widths.back() / 2));
  widths.push_back(1);
  const DenseOptions options{.bias = settings.head_bias == "all", .activate_last = false, .dropout = settings.dropout};
  head_ = register_module("head", std::make_shared<DenseStack>(widths, activation_, options));
}

plans::PlanRequest Tpgnn::plan_request() const {
  // One layer is enough: later ones are made of it, by what pooling leaves.
  return {1, {pooled_relation()}, plans::TileJoin::early, plans::Sharing::none};
}

torch::Tensor Tpgnn::score(const PlanTensors& plan) {
  check(plan);
  auto graphs = graphs_of(plan);
  auto x = encoder_->forward(plan);
  torch::Tensor summed;
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    const LayerTensors layer{{symmetrically_normalized(graphs)}, {}};
    x = pools_[i]->forward(convolutions_[i]->forward(x, {&layer, 1}, {}, activation_.slope()), graphs);
    PlanTensors left;
    left.nodes = pool_of(graphs, x.scalar_type());
    const auto pooled = readout_(x, left);
    summed = summed.defined() ? summed + pooled : pooled;
  }
  const Autocast full(summed.device(), /*mixed=*/false);  // as GraphModel::score
  return head_->forward(summed).squeeze(-1);
}

plans::PlanRequest Tpgnn::form_request() const {
  auto request = plan_request();
  request.relations.push_back(GcnConvolution::relations().front());
  return request;
}

std::string Tpgnn::describe_embed(FormWriter& writer) const {
  auto x = encoder_->describe(writer);
  std::string adjacency = "layer.0.relation.0", relation = "layer.0.relation.1", nodes = "nodes";
  std::vector<std::string> pooled;
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    const FormHops hops = {{{relation}, {}}};
    x = convolutions_[i]->describe(writer, x, hops, {}, activation_.slope());
    x = pools_[i]->describe(writer, x, adjacency, nodes);
    adjacency = x + ".adjacency";
    relation = x + ".relation";
    nodes = x + ".nodes";
    pooled.push_back(readout_.describe(writer, x, nodes));
  }
  return head_->describe(writer, pooled.size() == 1 ? pooled.front() : writer.add(pooled));
}

void Tpgnn::check(const PlanTensors& plan) const {
  const auto expect = [](bool condition, const char* what, auto found, auto expected) {
    if (!condition) throw ModelError(fmt::format("message plan: {}: {}, expected {}", what, found, expected));
  };
  expect(plan.node_features.size(1) == schema_.feature_count, "columns of node features", plan.node_features.size(1),
         schema_.feature_count);
  expect(plan.layers.size() == 1, "layers", plan.layers.size(), 1);
  expect(plan.layers.front()->relations.size() == 1, "relations of a layer", plan.layers.front()->relations.size(), 1);
  expect(plan.node_type_count <= schema_.node_type_count, "node type", plan.node_type_count - 1,
         fmt::format("below {}", schema_.node_type_count));
  expect(!plan.layout_rows.defined() && !plan.candidate_features.defined(), "layouts or tile features", "some", "none");
}

std::shared_ptr<CostModel> make_tpgnn(const configs::ModelSettings& settings, const InputSchema& schema) {
  return std::make_shared<Tpgnn>(settings, schema);
}

}  // namespace foretime::models
