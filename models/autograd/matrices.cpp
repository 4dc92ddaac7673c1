#include "base/check.h"
#include "inference/runtime/plan_matrices.h"
#include "models/autograd/run.h"
#include "models/gpu/launch.h"
#include "models/graph/error.h"
#include "models/sparse/sparse_ops.h"

namespace foretime::models {
namespace {

using Kind = MatrixRef::Kind;

/// The entries where `kept` is true.
struct Kept {
  torch::Tensor row_ptr, columns, values;
};

Kept entries_kept(const torch::Tensor& row_ptr, const torch::Tensor& columns, const torch::Tensor& values,
                  const torch::Tensor& kept) {
  const auto before = torch::cat({torch::zeros({1}, row_ptr.options()), kept.cumsum(0).to(row_ptr.scalar_type())});
  const auto chosen = kept.nonzero().squeeze(1);
  return {before.index_select(0, row_ptr), columns.index_select(0, chosen), values.index_select(0, chosen)};
}

CsrTensor without_some(const CsrTensor& matrix, const torch::Tensor& self, double probability) {
  const auto numbers = torch::device(matrix.columns.device());
  const auto rows = entry_rows(matrix);
  const auto own = (self.defined() ? self.index_select(0, rows) : rows) == matrix.columns;
  const auto drawn = torch::rand(matrix.columns.sizes(), numbers) >= probability;
  const auto kept = drawn | own;
  const auto all = matrix.values.defined() ? matrix.values : torch::ones(matrix.columns.sizes(), numbers);
  const auto values = torch::where(own, all, all / (1.0 - probability));
  const auto turned = transposed_entries(matrix);

  CsrTensor result = matrix;
  if (gpu::uses_gpu_kernels(matrix.columns.device())) {
    // How many entries stay is known to the device alone, and the host does not ask.
    result.values = values * kept;
    result.transposed_values = result.values.index_select(0, turned);
    result.zeros_are_none = true;
    return result;
  }
  const auto forward = entries_kept(matrix.row_ptr, matrix.columns, values, kept);
  result.row_ptr = forward.row_ptr;
  result.columns = forward.columns;
  result.values = forward.values;
  const auto backward = entries_kept(matrix.transposed_row_ptr, matrix.transposed_columns,
                                     values.index_select(0, turned), kept.index_select(0, turned));
  result.transposed_row_ptr = backward.row_ptr;
  result.transposed_columns = backward.columns;
  result.transposed_values = backward.values;
  result.transposed_positions = torch::Tensor();
  return result;
}

/// Makes the statements of a plan that lacks them (PlanTensorOptions::statements).
std::shared_ptr<const StatementTensors> statements_of(const PlanTensors& plan) {
  FORETIME_CHECK(plan.nodes.stages.size() == 1, "statements are those of program data");
  const auto features = plan.node_features.to(torch::kCPU, torch::kFloat).contiguous();
  const CsrTensor& nodes_of = plan.nodes.stages[0];
  const auto columns = nodes_of.columns.to(torch::kCPU).contiguous();
  const auto row_ptr = nodes_of.row_ptr.defined() ? nodes_of.row_ptr.to(torch::kCPU, torch::kLong).contiguous()
                                                  : torch::arange(nodes_of.rows + 1, torch::kLong);
  const auto parts = inference::statement_parts(features.data_ptr<float>(), features.size(0), features.size(1),
                                                std::span(row_ptr.data_ptr<int64_t>(), row_ptr.numel()),
                                                std::span(columns.data_ptr<int32_t>(), columns.numel()));
  return to_tensors(parts, {.device = plan.node_features.device(), .dtype = plan.node_features.scalar_type()});
}

[[noreturn]] void missing(const MatrixRef& name) {
  FORETIME_CHECK(false, "matrix {} is not in the message plan", inference::to_string(name));
}

}  // namespace

AutogradMatrices::AutogradMatrices(const PlanTensors& plan, const ModelGraph& model, bool training)
    : plan_(plan), model_(model), training_(training && model.edge_dropout > 0) {}

bool AutogradMatrices::is_zero(const MatrixRef& name) const {
  return name.kind == Kind::level_layout_row && !plan_.levels.at(name.at)->layout_row.defined();
}

const CsrTensor* AutogradMatrices::matrix(const MatrixRef& name) {
  const size_t at = name.at;
  const auto found = [&](const CsrTensor& matrix) {
    if (!matrix.defined()) missing(name);
    return &matrix;
  };
  switch (name.kind) {
    case Kind::identity: return nullptr;
    case Kind::node_types: return found(plan_.node_types);
    case Kind::collections: return found(plan_.node_collections);
    case Kind::level_node: return found(plan_.levels.at(at)->node);
    case Kind::level_layout_row: return found(plan_.levels.at(at)->layout_row);
    case Kind::level_candidate: return found(plan_.levels.at(at)->candidate);
    case Kind::self: {
      const auto& self = plan_.layers.at(at)->self;
      return self.defined() ? &self : nullptr;
    }
    case Kind::relation:
      if (training_ && name.drop_set >= 0) break;
      return found(plan_.layers.at(at)->relations.at(name.relation));
    case Kind::adjacency: return &graphs(name.at).adjacency;
    default: break;
  }
  auto known = made_.find(name);
  if (known == made_.end()) {
    if (name.drop_set >= 0) drop(name.drop_set);
    else if (name.kind >= Kind::statements && name.kind <= Kind::program_of) make_statements();
    else made_[name] = make(name);
    known = made_.find(name);
    if (known == made_.end()) missing(name);
  }
  return &known->second;
}

CsrTensor AutogradMatrices::make(const MatrixRef& name) {
  if (name.kind == Kind::normalized_adjacency) return symmetrically_normalized(graphs(name.at));
  if (name.kind != Kind::candidate_of) missing(name);
  const CsrTensor& rows = plan_.nodes.stages.front();
  const int64_t states = plan_.levels.back()->states;
  if (plan_.nodes.stages.size() > 1 || rows.cols != states || rows.columns.size(0) != states)
    throw ModelError(
        "model.norm: graph, with a plan whose candidates share states; expected a state for each node and candidate");
  return transposed(rows);
}

void AutogradMatrices::make_statements() {
  const auto parts = plan_.statements ? plan_.statements : statements_of(plan_);
  made_[{Kind::statements}] = parts->statements;
  made_[{Kind::loops}] = parts->loops;
  made_[{Kind::loops_of}] = parts->loops_of;
  made_[{Kind::innermost}] = parts->innermost;
  made_[{Kind::second}] = parts->second;
  for (size_t i = 0; i < parts->accesses.size(); ++i)
    made_[{Kind::access, static_cast<int32_t>(i)}] = parts->accesses[i];
  made_[{Kind::statements_of}] = parts->statements_of;
  made_[{Kind::program_of}] = transposed(parts->statements_of);
}

void AutogradMatrices::drop(int32_t set) {
  for (const MatrixRef& name : model_.drop_sets.at(set)) {
    const auto& layer = *plan_.layers.at(name.at);
    made_[name] = without_some(layer.relations.at(name.relation), layer.self.columns, model_.edge_dropout);
  }
}

GraphBatch& AutogradMatrices::graphs(int32_t result) {
  const auto found = graphs_.find(result);
  if (found != graphs_.end()) return found->second;
  FORETIME_CHECK(result < 0, "graphs of a pooling that has not run");
  return graphs_[result] = graphs_of(plan_);
}

const PoolTensors& AutogradMatrices::pool(const MatrixRef& name) {
  if (name.kind == Kind::nodes) return plan_.nodes;
  if (name.kind == Kind::configurable) return plan_.configurable;
  if (name.kind == Kind::tied) return plan_.tied;
  auto& known = pools_[name];
  if (!known.stages.empty()) return known;
  if (name.kind == Kind::kept_nodes) return known = pool_of(graphs(name.at), plan_.node_features.scalar_type());
  const CsrTensor& stage = *matrix(name);
  known.stages = {stage};
  known.counts = torch::diff(stage.row_ptr).to(plan_.node_features.scalar_type()).unsqueeze(1);
  return known;
}

torch::Tensor AutogradMatrices::counts(const MatrixRef& name) {
  const auto provided = counts_.find(name);
  return provided != counts_.end() ? provided->second : pool(name).counts;
}

torch::Tensor state_counts(const PlanTensors& plan, size_t level) {
  auto counts = torch::ones_like(plan.nodes.counts);
  for (size_t i = plan.nodes.stages.size(); i-- > 0;) counts = csr_matmul(transposed(plan.nodes.stages[i]), counts);
  // Every pair has one state in each level, and the one above knows which it was below.
  for (size_t i = plan.layers.size(); i-- > level;)
    if (plan.layers[i]->self.defined()) counts = csr_matmul(transposed(plan.layers[i]->self), counts);
  return counts;
}

}  // namespace foretime::models
