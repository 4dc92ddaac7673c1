#include "models/statement_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "models/autocast.h"
#include "models/csr_ops.h"

namespace foretime::models {
namespace {

using Columns = data::LoopColumns;

constexpr double kNanoseconds = 1e9;         // of a second
constexpr double kFirstLaunchCost = 7.5;     // two microseconds, in log nanoseconds
constexpr double kSmallestDeviation = 1e-3;  // columns that vary less are 0

/// Rows of a matrix in runs, as the matrix that collects each run: for sums, maxima and picks.
class Runs {
 public:
  void add(int64_t row) { rows_.push_back(static_cast<int32_t>(row)); }
  void close() { ends_.push_back(static_cast<int64_t>(rows_.size())); }
  int64_t in_last() const { return static_cast<int64_t>(rows_.size()) - ends_.back(); }
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }

  CsrTensor matrix(int64_t all_rows, torch::Device device) const {
    CsrTensor result;
    result.rows = static_cast<int64_t>(ends_.size()) - 1;
    result.cols = all_rows;
    std::vector<int64_t> turned_ptr(static_cast<size_t>(all_rows) + 1, 0);
    std::vector<int32_t> turned(rows_.size());
    for (const int32_t row : rows_) ++turned_ptr[static_cast<size_t>(row) + 1];
    for (size_t i = 1; i < turned_ptr.size(); ++i) turned_ptr[i] += turned_ptr[i - 1];
    std::vector<int64_t> next(turned_ptr.begin(), turned_ptr.end() - 1);
    for (size_t run = 0; run + 1 < ends_.size(); ++run) {
      for (auto i = static_cast<size_t>(ends_[run]); i < static_cast<size_t>(ends_[run + 1]); ++i)
        turned[static_cast<size_t>(next[static_cast<size_t>(rows_[i])]++)] = static_cast<int32_t>(run);
    }
    const auto pointers = device.is_cuda() ? torch::kInt : torch::kLong;
    result.row_ptr = torch::tensor(ends_, torch::kLong).to(device, pointers);
    result.columns = torch::tensor(rows_, torch::kInt).to(device);
    result.transposed_row_ptr = torch::tensor(turned_ptr, torch::kLong).to(device, pointers);
    result.transposed_columns = torch::tensor(turned, torch::kInt).to(device);
    return result;
  }

 private:
  std::vector<int32_t> rows_;
  std::vector<int64_t> ends_ = {0};
};

torch::Tensor row_numbers(const std::vector<int64_t>& rows, torch::Device device) {
  return torch::tensor(rows, torch::kLong).to(device);
}

}  // namespace

StatementPlan make_statement_plan(const PlanTensors& plan) {
  const auto device = plan.node_features.device();
  const auto kinds =
      torch::stack({plan.node_features.select(1, Columns::statement), plan.node_features.select(1, Columns::loop),
                    plan.node_features.select(1, Columns::access)},
                   1)
          .to(torch::kCPU, torch::kFloat)
          .contiguous();
  const auto is = [values = kinds.data_ptr<float>()](int64_t node, int kind) { return values[node * 3 + kind] > 0.5F; };
  const int64_t nodes = plan.node_features.size(0);
  std::vector<int64_t> statements, loops, statement_of(static_cast<size_t>(nodes), -1);
  Runs loops_of, innermost, second;
  std::array<Runs, Columns::kSlots> slots;
  size_t accesses = 0;
  const auto close = [&] {
    for (Runs* runs : {&loops_of, &innermost, &second}) runs->close();
    for (Runs& slot : slots) slot.close();
  };
  for (int64_t node = 0; node < nodes; ++node) {
    if (is(node, 0)) {
      if (!statements.empty()) close();
      statements.push_back(node);
      accesses = 0;
    } else if (statements.empty()) {
      throw ModelError("message plan: its graphs do not start with a statement, expected data.representation loops");
    } else if (is(node, 1)) {
      const auto loop = static_cast<int64_t>(loops.size());
      if (loops_of.in_last() == 0) innermost.add(loop);
      if (loops_of.in_last() == 1) second.add(loop);
      loops_of.add(loop);
      loops.push_back(node);
    } else if (is(node, 2) && accesses < slots.size()) {
      slots[accesses++].add(node);
    }
    statement_of[static_cast<size_t>(node)] = static_cast<int64_t>(statements.size()) - 1;
  }
  if (!statements.empty()) close();
  StatementPlan result;
  result.statements = row_numbers(statements, device);
  result.loops = row_numbers(loops, device);
  const auto loop_count = static_cast<int64_t>(loops.size());
  result.loops_of = loops_of.matrix(loop_count, device);
  result.innermost = innermost.matrix(loop_count, device);
  result.second = second.matrix(loop_count, device);
  for (size_t i = 0; i < slots.size(); ++i) result.accesses[i] = slots[i].matrix(nodes, device);
  if (plan.nodes.stages.size() != 1) throw ModelError("message plan: a readout in stages, expected program data");
  const CsrTensor& nodes_of = plan.nodes.stages[0];
  const auto columns = nodes_of.columns.to(torch::kCPU).contiguous();
  const auto row_ptr = nodes_of.row_ptr.defined() ? nodes_of.row_ptr.to(torch::kCPU, torch::kLong).contiguous()
                                                  : torch::arange(nodes_of.rows + 1, torch::kLong);
  const auto* starts = row_ptr.data_ptr<int64_t>();
  Runs statements_of;
  for (int64_t row = 0; row < nodes_of.rows; ++row) {
    for (int64_t i = starts[row]; i < starts[row + 1]; ++i) {
      const int32_t node = columns.data_ptr<int32_t>()[i];
      if (is(node, 0)) statements_of.add(statement_of[static_cast<size_t>(node)]);
    }
    statements_of.close();
  }
  result.statements_of = statements_of.matrix(static_cast<int64_t>(statements.size()), device);
  return result;
}

/// One cost function.
class StatementCost::Member : public torch::nn::Module {
 public:
  /// `width`: of what comes in beside the loops.
  Member(const configs::ModelSettings& settings, int64_t width, bool use_loops) {
    const Activation activation(settings);
    const int64_t hidden = settings.hidden, of_loop = settings.loop_hidden;
    if (use_loops) {
      width += 4 * of_loop;
      loops_ = register_module("loops", std::make_shared<DenseStack>(std::vector{Columns::kLoop + 0, of_loop, of_loop},
                                                                     activation, DenseOptions{}));
    }
    const DenseOptions inside{.bias = true, .activate_last = true, .dropout = settings.dropout};
    const DenseOptions last{.bias = true, .activate_last = false, .dropout = settings.dropout};
    std::vector<int64_t> widths(static_cast<size_t>(std::max<int64_t>(2, settings.head_layers)), hidden);
    widths.front() = width;
    body_ = register_module("body", std::make_shared<DenseStack>(widths, activation, inside));
    if (settings.context) {
      context_ =
          register_module("context", std::make_shared<DenseStack>(std::vector{hidden, hidden}, activation, inside));
      cost_ = register_module(
          "cost", std::make_shared<DenseStack>(std::vector{2 * hidden, hidden, int64_t{1}}, activation, last));
    } else {
      cost_ = register_module("cost", std::make_shared<DenseStack>(std::vector{hidden, int64_t{1}}, activation, last));
    }
    launch_cost_ = register_parameter("launch_cost", torch::full({1}, kFirstLaunchCost));
  }

  /// loops [loops, columns] and others [statements, columns], scaled → [statements, 1] log nanoseconds of an iteration.
  torch::Tensor iteration_costs(const torch::Tensor& loops, const torch::Tensor& others, const StatementPlan& parts) {
    std::vector<torch::Tensor> inputs;
    if (loops_) {
      const auto states = loops_->forward(loops);
      const auto counts = torch::diff(parts.loops_of.row_ptr).to(states.dtype()).clamp_min(1.0).unsqueeze(1);
      inputs = {csr_matmul(parts.loops_of, states) / counts, csr_max(parts.loops_of, states),
                csr_matmul(parts.innermost, states), csr_matmul(parts.second, states)};
    }
    if (others.defined()) inputs.push_back(others);
    auto states = body_->forward(torch::cat(inputs, 1));
    if (context_) {
      const auto sums = csr_matmul(parts.statements_of, context_->forward(states));
      states = torch::cat({states, csr_matmul(transposed(parts.statements_of), sums)}, 1);
    }
    return cost_->forward(states);
  }

  const torch::Tensor& launch_cost() const { return launch_cost_; }

 private:
  std::shared_ptr<DenseStack> loops_, body_, context_, cost_;
  torch::Tensor launch_cost_;
};

StatementCost::StatementCost(const configs::ModelSettings& settings, const InputSchema& schema) : clip_(settings.clip) {
  if (schema.kind != data::CandidateKind::program || schema.feature_count != Columns::count) {
    throw ModelError(
        fmt::format("model.type: statement_cost with {} node features, expected programs with {}: set "
                    "data.representation to loops",
                    schema.feature_count, static_cast<int64_t>(Columns::count)));
  }
  for (const auto& part : settings.statement_inputs) {
    const bool of_statement = part == "statement" || part == "block";
    if (of_statement && !statement_columns_.empty())
      throw ModelError(
          fmt::format("model.statement_inputs: '{}' and a part before it that has the same columns, "
                      "expected statement or block, and once",
                      part));
    if (part == "loops") {
      use_loops_ = true;
    } else if (part == "accesses") {
      use_accesses_ = true;
    } else if (part == "statement") {
      statement_columns_ = {{Columns::shape, Columns::kStatement - Columns::shape}};
    } else if (part == "block") {
      statement_columns_ = data::block_columns();
    } else {
      throw ModelError(fmt::format("model.statement_inputs: '{}', expected loops, accesses, statement or block", part));
    }
  }
  int64_t width = 0;
  if (use_accesses_) width += Columns::kSlots * Columns::kAccess;
  for (const auto& range : statement_columns_) width += range.count;
  if (width == 0 && !use_loops_)
    throw ModelError("model.statement_inputs: empty, expected loops, accesses, statement or block");
  auto members = register_module("members", torch::nn::ModuleList());
  for (int64_t i = 0; i < settings.members; ++i) {
    members_.push_back(std::make_shared<Member>(settings, width, use_loops_));
    members->push_back(members_.back());
  }
  offset_ = register_buffer("offset", torch::zeros({Columns::count}));
  scale_ = register_buffer("scale", torch::ones({Columns::count}));
}

void StatementCost::fit_transform(const InputStatistics& statistics) {
  if (!statistics.mean.defined() || statistics.mean.numel() != Columns::count)
    throw ModelError(fmt::format("feature statistics: expected {} columns", static_cast<int64_t>(Columns::count)));
  torch::NoGradGuard no_gradient;
  const std::array<std::pair<int64_t, int64_t>, 3> kinds = {std::pair{Columns::statement, Columns::kStatement},
                                                            std::pair{Columns::loop, Columns::kLoop},
                                                            std::pair{Columns::access, Columns::kAccess}};
  for (const auto& [first, count] : kinds) {
    // Columns are 0 where a node is of another kind: their moments over the nodes of this kind follow from its share.
    const double share = statistics.mean[first].item<double>();
    if (!(share > 0.0)) continue;
    const auto mean = statistics.mean.narrow(0, first, count) / share;
    const auto square =
        (statistics.deviation.narrow(0, first, count).square() + statistics.mean.narrow(0, first, count).square()) /
        share;
    const auto deviation = (square - mean.square()).clamp_min(0.0).sqrt();
    offset_.narrow(0, first, count).copy_(mean);
    scale_.narrow(0, first, count)
        .copy_(torch::where(deviation > kSmallestDeviation, (deviation + kSmallestDeviation).reciprocal(),
                            torch::zeros_like(deviation)));
  }
}

torch::Tensor StatementCost::scaled(const torch::Tensor& features, int64_t first, int64_t count) const {
  const auto x = (features - offset_.narrow(0, first, count)) * scale_.narrow(0, first, count);
  return clip_ > 0 ? x.clamp(-clip_, clip_) : x;
}

std::vector<torch::Tensor> StatementCost::member_scores(const PlanTensors& plan) {
  if (plan.node_features.size(1) != Columns::count)
    throw ModelError(fmt::format("message plan: columns of node features: {}, expected {}", plan.node_features.size(1),
                                 static_cast<int64_t>(Columns::count)));
  const StatementPlan parts = make_statement_plan(plan);
  const auto& features = plan.node_features;
  torch::Tensor loops, others;
  if (use_loops_) {
    const auto columns = features.narrow(1, Columns::loop, Columns::kLoop).index_select(0, parts.loops);
    loops = scaled(columns, Columns::loop, Columns::kLoop);
  }
  std::vector<torch::Tensor> inputs;
  if (use_accesses_) {
    const auto columns = features.narrow(1, Columns::access, Columns::kAccess).contiguous();
    for (const CsrTensor& slot : parts.accesses)
      inputs.push_back(scaled(csr_matmul(slot, columns), Columns::access, Columns::kAccess));
  }
  for (const auto& [first, count] : statement_columns_)
    inputs.push_back(scaled(features.narrow(1, first, count).index_select(0, parts.statements), first, count));
  if (!inputs.empty()) others = torch::cat(inputs, 1);
  const auto of_statements = [&](int64_t column) {
    return features.select(1, column).index_select(0, parts.statements).unsqueeze(1);
  };
  const auto iterations = of_statements(Columns::critical);
  const auto launches = csr_matmul(parts.statements_of, of_statements(Columns::launches));
  std::vector<torch::Tensor> scores;
  for (const auto& member : members_) {
    const auto each = member->iteration_costs(loops, others, parts);
    const Autocast full(each.device(), /*mixed=*/false);  // sums of exponentials need all bits
    const auto costs = each.to(iterations.dtype()) + iterations;
    // As log-sum-exp is taken: over the largest.
    const auto largest = csr_max(parts.statements_of, costs.detach());
    const auto spread = csr_matmul(transposed(parts.statements_of), largest);
    const auto sums = csr_matmul(parts.statements_of, torch::exp(costs - spread)) +
                      launches * torch::exp(member->launch_cost() - largest);
    scores.push_back((torch::log(sums) + largest).squeeze(1) - std::log(kNanoseconds));
  }
  return scores;
}

torch::Tensor StatementCost::score(const PlanTensors& plan) {
  const auto scores = member_scores(plan);
  return scores.size() == 1 ? scores.front() : torch::stack(scores).mean(0);
}

}  // namespace foretime::models
