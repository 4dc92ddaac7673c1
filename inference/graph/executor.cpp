#include "inference/graph/executor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "inference/error.h"
#include "inference/graph/executor_run.h"

namespace foretime::inference {

WeightShapes shapes_of(const Weights& weights) {
  WeightShapes shapes;
  for (const auto& [name, weight] : weights) shapes[name] = weight.shape;
  return shapes;
}

void Executor::Run::provide(const std::string& name, Matrix value) {
  const auto found = list_.slots.find(name);
  if (found != list_.slots.end()) values_[found->second] = std::move(value);
}

Matrix Executor::Run::run() {
  for (const Step& step : list_.steps) {
    step_ = &step;
    values_[step.result] = evaluate(*step.operation);
    for (const size_t slot : step.released) workspace_.give(std::move(values_[slot].values));
  }
  return std::move(values_[list_.result]);
}

void Executor::Run::fail(const std::string& what) const {
  throw BundleError(fmt::format("form: operation {} ({}): {}", step_->operation->result, step_->operation->op, what));
}

void Executor::Run::expect_rows(int64_t found, int64_t expected) const {
  if (found != expected) fail(fmt::format("{} rows, expected {}", found, expected));
}

const SparseMatrix& Executor::Run::matrix(size_t i, int64_t columns) const {
  const auto& found = matrices_->matrix(step_->operation->matrices[i]);
  if (found.columns != columns) fail(fmt::format("{} rows of an input, expected {}", columns, found.columns));
  return found;
}

Matrix Executor::Run::evaluate(const Operation& o) const {
  if (o.op == "dense") return dense();
  if (o.op == "csr_sum") return csr_sum(o);
  if (o.op == "csr_max") return csr_max(matrix(0, input(0).rows), input(0));
  if (o.op == "pool") return pool(o);
  if (o.op == "add") return add(o);
  if (o.op == "multiply") return multiply();
  if (o.op == "activate") return activate(o);
  if (o.op == "join") return join(o);
  if (o.op == "select") return select(o);
  if (o.op == "transform") return transform();
  if (o.op == "normalize") return normalize(o);
  if (o.op == "lookup") return lookup();
  if (o.op == "codes") return codes();
  if (o.op == "attention") return attention(o);
  if (o.op == "group") return group(o);
  if (o.op == "top_nodes") return top_nodes(o);
  fail("no such operation");
}

Executor::Executor(Form form, std::shared_ptr<const Weights> weights, int64_t feature_count)
    : form_(std::move(form)), weights_(std::move(weights)), feature_count_(feature_count) {
  check_form(form_, shapes_of(*weights_), feature_count_);
  embed_ = compile(form_.embed, {kNodeFeatures, kLayoutRows, kCandidateFeatures}, form_.embedded);
  score_ = compile(form_.score, {kEmbedded}, form_.scores);
}

Executor::List Executor::compile(const std::vector<Operation>& operations, const std::vector<std::string>& inputs,
                                 const std::string& result) const {
  List list;
  for (const auto& input : inputs) list.slots.emplace(input, list.slots.size());
  for (const auto& operation : operations) {
    Step step{.operation = &operation, .inputs = {}, .result = 0, .weights = {}, .released = {}};
    for (const auto& input : operation.inputs) step.inputs.push_back(list.slots.at(input));
    step.result = list.slots.emplace(operation.result, list.slots.size()).first->second;
    for (const auto& weight : operation.weights)
      step.weights.push_back(weight.empty() ? nullptr : &weights_->at(weight));
    list.steps.push_back(std::move(step));
  }
  list.result = list.slots.at(result);
  std::vector<bool> needed(list.slots.size(), false);
  needed[list.result] = true;
  for (size_t i = list.steps.size(); i-- > 0;) {
    Step& step = list.steps[i];
    for (const size_t slot : step.inputs) {
      if (!needed[slot]) step.released.push_back(slot);
      needed[slot] = true;
    }
    if (!needed[step.result]) step.released.push_back(step.result);
  }
  return list;
}

Matrix Executor::embed(const plans::MessagePlan& plan, Workspace& workspace) const {
  if (plan.feature_count != feature_count_)
    throw BundleError(
        fmt::format("message plan: {} columns of node features, expected {}", plan.feature_count, feature_count_));
  if (static_cast<int64_t>(plan.layers.size()) != form_.request.layers)
    throw BundleError(fmt::format("message plan: {} layers, expected {}", plan.layers.size(), form_.request.layers));
  PlanMatrices matrices(plan, form_.statements);
  Run run(embed_, &matrices, {}, workspace);
  const auto given = [&](const char* name, const auto& values, int64_t columns) {
    if (!embed_.slots.contains(name)) return;
    Matrix matrix{static_cast<int64_t>(values.size()) / std::max<int64_t>(1, columns), columns,
                  workspace.take(values.size())};
    std::copy(values.begin(), values.end(), matrix.values.begin());
    run.provide(name, std::move(matrix));
  };
  given(kNodeFeatures, plan.node_features, plan.feature_count);
  static const std::vector<int8_t> no_layout(data::kLayoutFeatures, 0);
  given(kLayoutRows, plan.layout_rows.empty() ? no_layout : plan.layout_rows, data::kLayoutFeatures);
  given(kCandidateFeatures, plan.candidate_features, data::kTileFeatures);
  auto result = run.run();
  if (result.rows != plan.candidates())
    throw BundleError(fmt::format("form: {} rows of {}, expected one a candidate, {}", result.rows, form_.embedded,
                                  plan.candidates()));
  return result;
}

std::vector<float> Executor::score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace) const {
  const int64_t rows = embedded.rows;
  if (embedded.columns != form_.embedded_columns || group_ptr.empty() || group_ptr.back() != rows)
    throw BundleError(
        fmt::format("form: {} columns of embedded candidates, expected {}", embedded.columns, form_.embedded_columns));
  Run run(score_, nullptr, group_ptr, workspace);
  run.provide(kEmbedded, std::move(embedded));
  auto result = run.run();
  if (result.rows != rows) throw BundleError(fmt::format("form: {} scores, expected {}", result.rows, rows));
  result.values.resize(static_cast<size_t>(rows));
  return std::move(result.values);
}

}  // namespace foretime::inference
