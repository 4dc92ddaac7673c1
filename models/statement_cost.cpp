#include "models/statement_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "inference/graph/statement_parts.h"
#include "models/autocast.h"
#include "models/sparse/csr_ops.h"

namespace foretime::models {
namespace {

using Columns = data::LoopColumns;

constexpr double kNanoseconds = 1e9;         // of a second
constexpr double kFirstLaunchCost = 7.5;     // two microseconds, in log nanoseconds
constexpr double kSmallestDeviation = 1e-3;  // columns that vary less are 0

/// With its transpose; all values are 1.
CsrTensor to_tensor(const plans::CsrMatrix& matrix, torch::Device device) {
  const auto pointers = device.is_cuda() ? torch::kInt : torch::kLong;
  const auto turned = plans::transpose(matrix);
  CsrTensor result;
  result.rows = matrix.rows;
  result.cols = matrix.cols;
  result.row_ptr = torch::tensor(matrix.row_ptr, torch::kLong).to(device, pointers);
  result.columns = torch::tensor(matrix.columns, torch::kInt).to(device);
  result.transposed_row_ptr = torch::tensor(turned.row_ptr, torch::kLong).to(device, pointers);
  result.transposed_columns = torch::tensor(turned.columns, torch::kInt).to(device);
  return result;
}

torch::Tensor row_numbers(const std::vector<int32_t>& rows, torch::Device device) {
  return torch::tensor(rows, torch::kInt).to(device, torch::kLong);
}

}  // namespace

StatementPlan make_statement_plan(const PlanTensors& plan) {
  const auto device = plan.node_features.device();
  if (plan.nodes.stages.size() != 1) throw ModelError("message plan: a readout in stages, expected program data");
  const auto features = plan.node_features.to(torch::kCPU, torch::kFloat).contiguous();
  const CsrTensor& nodes_of = plan.nodes.stages[0];
  const auto columns = nodes_of.columns.to(torch::kCPU).contiguous();
  const auto row_ptr = nodes_of.row_ptr.defined() ? nodes_of.row_ptr.to(torch::kCPU, torch::kLong).contiguous()
                                                  : torch::arange(nodes_of.rows + 1, torch::kLong);
  const auto parts = [&] {
    try {
      return inference::statement_parts(features.data_ptr<float>(), features.size(0), features.size(1),
                                        {row_ptr.data_ptr<int64_t>(), static_cast<size_t>(row_ptr.numel())},
                                        {columns.data_ptr<int32_t>(), static_cast<size_t>(columns.numel())});
    } catch (const DataError& error) {
      throw ModelError(error.what());
    }
  }();
  StatementPlan result;
  result.statements = row_numbers(parts.statements, device);
  result.loops = row_numbers(parts.loops, device);
  result.loops_of = to_tensor(parts.loops_of, device);
  result.innermost = to_tensor(parts.innermost, device);
  result.second = to_tensor(parts.second, device);
  for (size_t i = 0; i < parts.accesses.size(); ++i) result.accesses[i] = to_tensor(parts.accesses[i], device);
  result.statements_of = to_tensor(parts.statements_of, device);
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

  /// iteration_costs, by the names of the scaled loops and of the other inputs.
  std::string describe(FormWriter& writer, const std::string& loops, const std::string& others) const {
    std::vector<std::string> inputs;
    if (loops_) {
      const auto states = loops_->describe(writer, loops);
      inputs = {writer.pool(states, "loops_of", "mean"), writer.pool(states, "loops_of", "max"),
                writer.csr_sum({{"innermost", states}}), writer.csr_sum({{"second", states}})};
    }
    if (!others.empty()) inputs.push_back(others);
    auto states = body_->describe(writer, writer.join(inputs));
    if (context_) {
      const auto sums = writer.csr_sum({{"statements_of", context_->describe(writer, states)}});
      states = writer.join({states, writer.csr_sum({{"program_of", sums}})});
    }
    return cost_->describe(writer, states);
  }

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

std::string StatementCost::describe_embed(FormWriter& writer) const {
  const std::string features = inference::kNodeFeatures;
  const auto columns_of = [&](const char* nodes, int64_t first, int64_t count) {
    return writer.csr_sum({{nodes, writer.select(features, first, count)}});
  };
  const auto scaled = [&](const std::string& x, int64_t first, int64_t count) {
    return writer.emit(
        {.op = "transform",
         .result = {},
         .inputs = {x},
         .weights = {writer.constant(offset_.narrow(0, first, count)), writer.constant(scale_.narrow(0, first, count))},
         .numbers = {{"clip", std::max(0.0, clip_)}}});
  };
  std::string loops, others;
  if (use_loops_) loops = scaled(columns_of("loops", Columns::loop, Columns::kLoop), Columns::loop, Columns::kLoop);
  std::vector<std::string> inputs;
  for (int64_t slot = 0; use_accesses_ && slot < Columns::kSlots; ++slot) {
    const auto matrix = fmt::format("access.{}", slot);
    inputs.push_back(
        scaled(columns_of(matrix.c_str(), Columns::access, Columns::kAccess), Columns::access, Columns::kAccess));
  }
  for (const auto& [first, count] : statement_columns_)
    inputs.push_back(scaled(columns_of("statements", first, count), first, count));
  if (!inputs.empty()) others = writer.join(inputs);
  const auto iterations = columns_of("statements", Columns::critical, 1);
  const auto launches = writer.csr_sum({{"statements_of", columns_of("statements", Columns::launches, 1)}});
  std::vector<std::string> scores;
  for (const auto& member : members_) {
    const auto costs = writer.add({member->describe(writer, loops, others), iterations});
    const auto largest = writer.pool(costs, "statements_of", "max");
    const auto spread = writer.csr_sum({{"program_of", largest}});
    const auto sums =
        writer.csr_sum({{"statements_of", writer.activate(writer.add({costs, spread}, {1.0, -1.0}), "exp")}});
    const auto launch = writer.activate(writer.add({largest}, {-1.0}, writer.weight(member->launch_cost())), "exp");
    const auto total = writer.activate(writer.add({sums, writer.multiply(launches, launch)}), "log");
    scores.push_back(
        writer.add({total, largest}, {}, writer.constant(torch::full({1}, -std::log(kNanoseconds), torch::kFloat))));
  }
  if (scores.size() == 1) return scores.front();
  return writer.add(scores, std::vector<double>(scores.size(), 1.0 / static_cast<double>(scores.size())));
}

torch::Tensor StatementCost::score(const PlanTensors& plan) {
  const auto scores = member_scores(plan);
  return scores.size() == 1 ? scores.front() : torch::stack(scores).mean(0);
}

}  // namespace foretime::models
