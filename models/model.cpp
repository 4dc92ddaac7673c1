#include "models/model.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "data/frontends/loops/loop_columns.h"
#include "models/architectures/graph_model.h"
#include "models/autograd/run.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

using Columns = data::LoopColumns;

constexpr double kSmallestDeviation = 1e-3;  // loop columns that vary less are 0

/// Modules that only hold tensors, so that these have dotted names.
class Folder : public torch::nn::Module {};

torch::Tensor initial(const TensorSpec& spec) {
  auto values = torch::empty(spec.shape);
  const double number = spec.initial.number;
  switch (spec.initial.kind) {
    case Initial::Kind::constant: return values.fill_(number);
    case Initial::Kind::linear_weight:
      return torch::nn::init::kaiming_uniform_(values, std::sqrt(5));  // initialisation of torch::nn::Linear
    case Initial::Kind::linear_bias: {
      const double bound = 1 / std::sqrt(number);
      return torch::nn::init::uniform_(values, -bound, bound);
    }
    case Initial::Kind::normal: return torch::nn::init::normal_(values);
    case Initial::Kind::xavier_uniform: return torch::nn::init::xavier_uniform_(values);
    case Initial::Kind::uniform: return values.uniform_(-number, number);
  }
  return values;
}

void fit_columns(const FitSpec& fit, torch::Tensor offset, torch::Tensor scale, const torch::Tensor& minimum,
                 const torch::Tensor& maximum, const torch::Tensor& mean, const torch::Tensor& deviation) {
  if (fit.features.transform == configs::FeatureTransform::none) return;
  const int64_t columns = offset.size(0);
  for (const auto* statistic : {&minimum, &maximum, &mean, &deviation})
    FORETIME_CHECK(statistic->defined() && statistic->numel() == columns, "feature statistics of {} columns", columns);
  const bool minmax = fit.features.transform == configs::FeatureTransform::minmax;
  // A range so small that its reciprocal overflows in the model's type counts as constant too.
  const auto reciprocal = (minmax ? maximum - minimum : deviation).reciprocal().to(scale.scalar_type());
  const auto varies = (maximum > minimum).logical_and(torch::isfinite(reciprocal));
  offset.copy_(minmax ? minimum : mean);
  scale.copy_(torch::where(varies, reciprocal, torch::zeros_like(reciprocal)));
}

void fit_loop_columns(torch::Tensor offset, torch::Tensor scale, const InputStatistics& statistics) {
  FORETIME_CHECK(statistics.mean.defined() && statistics.mean.numel() == offset.numel(),
                 "feature statistics of {} columns", offset.numel());
  struct Range {
    int64_t mark, first, count;  // mark: the column that says which nodes have the others
  };
  constexpr std::array<Range, 6> kRanges = {Range{Columns::statement, Columns::statement, Columns::kStatement},
                                            Range{Columns::loop, Columns::loop, Columns::kLoop},
                                            Range{Columns::access, Columns::access, Columns::kAccess},
                                            Range{Columns::statement, Columns::machine, Columns::kMachine},
                                            Range{Columns::statement, Columns::gpu, Columns::kGpu},
                                            Range{Columns::access, Columns::gpu_access, Columns::kGpuAccess}};
  for (const auto& [mark, first, count] : kRanges) {
    if (first >= offset.numel()) continue;  // data without columns of the machine, or of GPUs
    // Columns are 0 where a node is of another kind: their moments over the nodes of this kind follow from its share.
    const double share = statistics.mean[mark].item<double>();
    if (!(share > 0.0)) continue;
    const auto mean = statistics.mean.narrow(0, first, count) / share;
    const auto square =
        (statistics.deviation.narrow(0, first, count).square() + statistics.mean.narrow(0, first, count).square()) /
        share;
    const auto deviation = (square - mean.square()).clamp_min(0.0).sqrt();
    offset.narrow(0, first, count).copy_(mean);
    scale.narrow(0, first, count)
        .copy_(torch::where(deviation > kSmallestDeviation, (deviation + kSmallestDeviation).reciprocal(),
                            torch::zeros_like(deviation)));
  }
}

void fit_type_vectors(torch::Tensor table, const torch::Tensor& vectors) {
  if (!vectors.defined() || vectors.sizes() != table.sizes())
    throw ModelError(
        "vectors of node types: {}, expected {} of {} columns (model.node_type_embedding)",
        vectors.defined() ? fmt::format("{} of {} columns", vectors.size(0), vectors.size(1)) : std::string("none"),
        table.size(0), table.size(1));
  table.copy_(vectors);
}

}  // namespace

CostModel::CostModel(ModelGraph graph, const InputSchema& schema) : model_(std::move(graph)), schema_(schema) {
  std::map<std::string, torch::Tensor> drawn;
  {
    const torch::NoGradGuard no_gradient;
    for (const auto& spec : model_.tensors) drawn[spec.name] = initial(spec);
  }
  register_tensors(drawn);
}

CostModel::CostModel(ModelGraph graph, const InputSchema& schema, const std::map<std::string, torch::Tensor>& tensors,
                     Sharing)
    : model_(std::move(graph)), schema_(schema) {
  register_tensors(tensors);
}

CostModel::~CostModel() = default;

void CostModel::register_tensors(const std::map<std::string, torch::Tensor>& tensors) {
  for (const auto& spec : model_.tensors) {
    torch::nn::Module* folder = this;
    std::string name = spec.name;
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.')) {
      const auto part = name.substr(0, dot);
      name.erase(0, dot + 1);
      const auto children = folder->named_children();
      const auto* known = children.find(part);
      folder = known ? known->get() : folder->register_module(part, std::make_shared<Folder>()).get();
    }
    const auto& tensor = tensors.at(spec.name);
    tensors_[spec.name] =
        spec.buffer ? folder->register_buffer(name, tensor) : folder->register_parameter(name, tensor);
  }
  graph_ = std::make_unique<AutogradGraph>(model_, tensors_, schema_.feature_count);
}

const plans::PlanRequest& CostModel::plan_request() const { return model_.graph.request; }

PlanTensorOptions CostModel::plan_tensor_options(torch::Device device) const {
  PlanTensorOptions options{.device = device, .entry_positions = model_.edge_dropout > 0};
  for (const auto& node : model_.graph.embed) {
    if (std::holds_alternative<inference::AdditiveAttention>(node.operation) ||
        std::holds_alternative<inference::DotAttention>(node.operation))
      options.entry_positions = true;
    inference::visit_all<MatrixRef>(node.operation, [&](const MatrixRef& matrix) {
      options.statements |= matrix.kind >= MatrixRef::Kind::statements && matrix.kind <= MatrixRef::Kind::program_of;
    });
  }
  return options;
}

void CostModel::check_whole(const PlanTensors& plan) const {
  check(plan);
  FORETIME_CHECK(plan.pools == 1, "{} pools", plan.pools);
}

torch::Tensor CostModel::embed(const PlanTensors& plan) {
  check_whole(plan);
  graph_->training = is_training();
  AutogradMatrices matrices(plan, model_, is_training());
  return graph_->embed(&plan, &matrices, {model_.graph.embedded}).front();
}

torch::Tensor CostModel::outputs_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr) {
  graph_->training = is_training();
  return graph_->score(embedded, group_ptr, {model_.graph.scores})
      .front()
      .squeeze(1);  // [candidates, 1] → [candidates]
}

torch::Tensor CostModel::score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr) {
  const auto outputs = outputs_embedded(embedded, group_ptr);
  return outputs.dim() == 1 ? outputs : outputs.select(1, 0);
}

torch::Tensor CostModel::score(const PlanTensors& plan) { return score_embedded(embed(plan), plan.group_ptr); }

std::vector<torch::Tensor> CostModel::member_scores(const PlanTensors& plan) {
  check_whole(plan);
  std::vector<torch::Tensor> scores;
  if (model_.member_states.empty()) {
    scores = graph_->score(embed(plan), plan.group_ptr, model_.member_scores);
  } else {
    // Members run one after another, so that each draws the dropout of a separate training.
    graph_->training = is_training();
    AutogradMatrices matrices(plan, model_, is_training());
    for (size_t m = 0; m < model_.member_states.size(); ++m) {
      const auto& [embedded, selected] = model_.member_states[m];
      const auto states = graph_->embed(&plan, &matrices, {embedded}).front();
      scores.push_back(graph_->score({}, plan.group_ptr, {model_.member_scores[m]}, {{selected, states}}).front());
    }
  }
  for (auto& score : scores) score = score.squeeze(1);
  return scores;
}

std::vector<std::shared_ptr<CostModel>> CostModel::members() {
  std::vector<std::shared_ptr<CostModel>> members;
  if (!model_.members_are_models || model_.member_scores.size() < 2) return members;
  for (const Value scores : model_.member_scores) {
    auto graph = model_;
    graph.graph.scores = scores;
    graph.member_scores = {scores};
    members.push_back(std::shared_ptr<CostModel>(new CostModel(std::move(graph), schema_, tensors_, Sharing())));
    members.back()->train(is_training());
  }
  return members;
}

void CostModel::check_pieces() const {
  if (!model_.whole_graphs_only.empty()) throw ModelError(model_.whole_graphs_only);
}

int64_t CostModel::columns(const PooledStates& pool) const {
  return (pool.sum.defined() ? graph_->embed_columns(pool.sum) : 0) + 1 +
         (pool.maximum.defined() ? graph_->embed_columns(pool.maximum) : 0);
}

int64_t CostModel::pool_columns() const {
  check_pieces();
  int64_t all = 0;
  for (const auto& pool : model_.pools) all += columns(pool);
  return all;
}

torch::Tensor CostModel::pool(const PlanTensors& plan) {
  check_pieces();
  check(plan);
  graph_->training = is_training();
  AutogradMatrices matrices(plan, model_, is_training());
  std::vector<Value> wanted;
  for (const auto& pool : model_.pools) {
    if (pool.sum.defined()) wanted.push_back(pool.sum);
    if (pool.maximum.defined()) wanted.push_back(pool.maximum);
  }
  const auto values = graph_->embed(&plan, &matrices, wanted);
  std::vector<torch::Tensor> columns;
  auto next = values.begin();
  for (const auto& pool : model_.pools) {
    if (pool.sum.defined()) columns.push_back(*next++);
    columns.push_back(matrices.counts(pool.pool));
    if (pool.maximum.defined()) columns.push_back(*next++);
  }
  const auto pooled = torch::cat(columns, 1);
  return pooled.view({-1, plan.pools, pooled.size(1)});
}

torch::Tensor CostModel::combine_pools(const torch::Tensor& pools, const torch::Tensor& weights) const {
  check_pieces();
  std::vector<torch::Tensor> combined;
  int64_t at = 0;
  for (const auto& pool : model_.pools) {
    const int64_t sums = pool.sum.defined() ? graph_->embed_columns(pool.sum) : 0;
    auto summed = pools.narrow(2, at, sums + 1);
    const auto counts = pools.narrow(2, at + sums, 1);
    auto present = counts > 0;
    if (weights.defined()) {
      summed = summed * weights.unsqueeze(2);
      present = present & (weights.unsqueeze(2) != 0);
    }
    combined.push_back(summed.sum(1));
    if (pool.maximum.defined()) {
      const auto maxima = pools.narrow(2, at + sums + 1, graph_->embed_columns(pool.maximum));
      constexpr double kNone = -std::numeric_limits<double>::infinity();
      const auto best = maxima.masked_fill(~present, kNone).amax(1);
      combined.push_back(best.masked_fill(~present.any(1), 0.0));
    }
    at += columns(pool);
  }
  return torch::cat(combined, 1);
}

torch::Tensor CostModel::score_pools(const torch::Tensor& pools) {
  check_pieces();
  graph_->training = is_training();
  static const PlanTensors no_plan;
  AutogradMatrices matrices(no_plan, model_, false);
  AutogradGraph::Provided provided;
  int64_t at = 0;
  for (const auto& pool : model_.pools) {
    const int64_t sums = pool.sum.defined() ? graph_->embed_columns(pool.sum) : 0;
    if (pool.sum.defined()) provided[pool.sum] = pools.narrow(1, at, sums);
    matrices.provide_counts(pool.pool, pools.narrow(1, at + sums, 1));
    if (pool.maximum.defined())
      provided[pool.maximum] = pools.narrow(1, at + sums + 1, graph_->embed_columns(pool.maximum));
    at += columns(pool);
  }
  const auto embedded = graph_->embed(nullptr, &matrices, {model_.graph.embedded}, provided).front();
  return score_embedded(embedded, {});
}

void CostModel::fit_transform(const InputStatistics& statistics) {
  const torch::NoGradGuard no_gradient;
  for (const auto& fit : model_.fits) {
    const auto offset = tensor(fit.offset.name);
    const auto scale = fit.scale.defined() ? tensor(fit.scale.name) : torch::Tensor();
    const auto chosen = [&](const torch::Tensor& statistic) {
      const bool all = std::ssize(fit.columns) == schema_.feature_count;
      return all || !statistic.defined() ? statistic : statistic.index_select(0, torch::tensor(fit.columns));
    };
    switch (fit.source) {
      case FitSpec::Source::node_features:
        fit_columns(fit, offset, scale, chosen(statistics.minimum), chosen(statistics.maximum), chosen(statistics.mean),
                    chosen(statistics.deviation));
        break;
      case FitSpec::Source::tile_features:
        fit_columns(fit, offset, scale, statistics.candidate_minimum, statistics.candidate_maximum,
                    statistics.candidate_mean, statistics.candidate_deviation);
        break;
      case FitSpec::Source::loop_columns: fit_loop_columns(offset, scale, statistics); break;
      case FitSpec::Source::type_vectors: fit_type_vectors(offset, statistics.type_vectors); break;
    }
  }
}

void CostModel::freeze_statistics(bool frozen) { graph_->statistics_frozen = frozen; }

inference::Graph CostModel::inference_graph() const { return inference::without_training(model_.graph); }

inference::Weights CostModel::inference_weights() const {
  inference::Weights weights;
  for (const auto& [name, tensor] : tensors_) {
    const auto plain = tensor.detach().to(torch::kCPU, torch::kFloat).contiguous();
    const auto* first = plain.data_ptr<float>();
    weights[name] = {plain.sizes().vec(), std::vector<float>(first, first + plain.numel())};
  }
  return weights;
}

void CostModel::check(const PlanTensors& plan) const {
  if (plan.upload) plan.upload->wait();
  const auto expect = [](bool condition, const char* what, auto found, auto expected) {
    FORETIME_CHECK(condition, "message plan: {}: {}, expected {}", what, found, expected);
  };
  const auto& request = model_.graph.request;
  expect(plan.node_features.size(1) == schema_.feature_count, "columns of node features", plan.node_features.size(1),
         schema_.feature_count);
  expect(std::ssize(plan.layers) == request.layers, "layers", plan.layers.size(), request.layers);
  for (const auto& layer : plan.layers)
    expect(layer->relations.size() == request.relations.size(), "relations of a layer", layer->relations.size(),
           request.relations.size());
  if (plan.node_type_count > schema_.node_type_count)
    throw ModelError("node type {}, expected below {} as the model was trained on", plan.node_type_count - 1,
                     schema_.node_type_count);
  expect(!request.collections || plan.node_collections.defined(), "collections of nodes", "none", "some");
  expect(!request.tied || !plan.tied.stages.empty(), "tied nodes", "none", "some");
  const bool tiles = schema_.kind == data::CandidateKind::tile;
  expect(plan.candidate_features.defined() == tiles, "tile features",
         plan.candidate_features.defined() ? "some" : "none", tiles ? "some" : "none");
  const bool by_state = tiles && request.tile_join == plans::TileJoin::early;
  expect(!by_state || plan.levels.front()->candidate.defined(), "candidates of states", "none", "one for each state");
  expect(schema_.kind == data::CandidateKind::layout || !plan.layout_rows.defined(), "layout rows", "some", "none");
}

std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  return std::make_shared<CostModel>(build_model(settings, schema), schema);
}

}  // namespace foretime::models
