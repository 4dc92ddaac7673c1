#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "data/frontends/loops/loop_columns.h"
#include "models/architectures/graph_model.h"
#include "models/layers/layers.h"

namespace foretime::models {
namespace {

using Columns = data::LoopColumns;
using Kind = MatrixRef::Kind;
using Mode = inference::Activate::Mode;
using Pooled = inference::PoolStates::Mode;

constexpr double kNanoseconds = 1e9;      // nanoseconds in a second
constexpr double kFirstLaunchCost = 7.5;  // two microseconds, in log nanoseconds

/// Describes the inputs that model.statement_cost.inputs selects.
struct StatementInputs {
  bool loops = false, accesses = false, machine = false;
  std::vector<data::ColumnRange> columns = {};  // columns of a statement's features
};

StatementInputs chosen_inputs(const configs::ModelSettings& settings) {
  using Input = configs::StatementInput;
  StatementInputs inputs;
  for (const auto part : settings.statement_cost.inputs) {
    if ((part == Input::statement || part == Input::block) && !inputs.columns.empty())
      throw ModelError(
          "model.statement_cost.inputs: '{}' repeats the columns of an earlier part, expected statement or block once",
          word_of(part));
    if (part == Input::loops) inputs.loops = true;
    if (part == Input::accesses) inputs.accesses = true;
    if (part == Input::machine) inputs.machine = true;
    if (part == Input::statement) inputs.columns = {{Columns::shape, Columns::kStatement - Columns::shape}};
    if (part == Input::block) inputs.columns = data::block_columns();
  }
  if (settings.statement_cost.inputs.empty())
    throw ModelError("model.statement_cost.inputs: empty, expected loops, accesses, statement, block or machine");
  return inputs;
}

struct StatementOutputs {
  Value costs;    // [statements, 1] log nanoseconds of an iteration
  Value failure;  // [programs, 1] logit of the chance of failure; undefined: not asked for
};

/// One cost function: loops [loops, columns] and others [statements, columns], scaled; either may be undefined.
StatementOutputs statement_outputs(GraphBuilder& b, const configs::ModelSettings& settings, Value loops, Value others) {
  const double slope = activation_slope(settings);
  const int64_t hidden = settings.hidden, of_loop = settings.statement_cost.loop_hidden;
  std::vector<Value> inputs;
  if (loops.defined()) {
    const DenseStack stack(b, "loops", {Columns::kLoop + 0, of_loop, of_loop}, slope, {});
    const Value states = stack(b, loops);
    const MatrixRef loops_of{Kind::loops_of};
    inputs = {b.pool_mean(b.pool(states, loops_of, Pooled::sum), loops_of), b.pool(states, loops_of, Pooled::max),
              b.csr_sum({{{Kind::innermost}, states}}), b.csr_sum({{{Kind::second}, states}})};
  }
  if (others.defined()) inputs.push_back(others);
  const Value joined = b.join(inputs);
  const DenseOptions inside{.bias = true, .activate_last = true, .dropout = settings.dropout};
  const DenseOptions last{.bias = true, .activate_last = false, .dropout = settings.dropout};
  std::vector<int64_t> widths(std::max<int64_t>(2, settings.head_layers), hidden);
  widths.front() = b.width(joined);
  const DenseStack body(b, "body", widths, slope, inside);
  const Value states = body(b, joined);
  StatementOutputs outputs;
  if (settings.failure_output) {
    // A program fails by its worst statement, or by all of them together.
    const MatrixRef statements{Kind::statements_of};
    const Value pooled = b.join(
        {b.pool(states, statements, Pooled::max), b.pool_mean(b.pool(states, statements, Pooled::sum), statements)});
    outputs.failure = DenseStack(b, "failure", {2 * hidden, hidden, 1}, slope, last)(b, pooled);
  }
  if (!settings.statement_cost.context) {
    outputs.costs = DenseStack(b, "cost", {hidden, 1}, slope, last)(b, states);
    return outputs;
  }
  const DenseStack context(b, "context", {hidden, hidden}, slope, inside);
  const DenseStack cost(b, "cost", {2 * hidden, hidden, 1}, slope, last);
  const Value sums = b.csr_sum({{{Kind::statements_of}, context(b, states)}});
  outputs.costs = cost(b, b.join({states, b.csr_sum({{{Kind::program_of}, sums}})}));
  return outputs;
}

}  // namespace

/// The run time of a program as the sum of its statements' costs: a statement costs the iterations of its busiest core
/// times a learned cost of one of them, which depends on its loops, accesses and operations alone; so what is learned
/// of one program's statements holds for those of programs that were never seen. The score is the logarithm of the run
/// time in seconds,
///
///   log Σ over statements of (critical iterations × exp(f(statement)) + launches × exp(c)) − log 10⁹,
///
/// f in log nanoseconds, c the learned cost of starting threads. It fits loss.target log_runtime, and any ranking loss.
/// f is a dense stack of model.head_layers over
///   loops      mean and maximum over the statement's loops of a dense stack's outputs (two layers of
///              model.statement_cost.loop_hidden), and those of the innermost loop and of the one around it
///   accesses   the columns of the store and of the first three loads
///   statement  the statement's own columns
///   block      of these, the ones that describe the code of its innermost block (data::block_columns)
///   machine    what is known of the machine (data::Hardware), and data::roofline
/// of which model.statement_cost.inputs chooses. Of programs for GPUs, accesses come with their columns gpu_access.*,
/// and statement, block and machine with gpu.* (data/frontends/loops/gpu_columns.h). With
/// model.statement_cost.context, what its hidden states sum up to over the program comes in before the last two layers.
/// With model.ensemble_size, several of these are trained apart,
/// and the score is their mean. Columns are scaled to mean 0 and deviation 1 over the nodes of their kind, and cut at
/// model.statement_cost.clip deviations: programs beyond what was seen look like the most extreme that were.
/// With model.statement_cost.roofline, f is a correction: data::roofline's logarithm is added to it.
/// With model.failure_output, a dense stack over the maximum and the mean of the statements' hidden states gives the
/// logit of the chance of failure.
/// Parameters: members.N.loops.…, .body.…, .failure.…, .context.…, .cost.…, .launch_cost; buffers offset, scale.
/// Throws ModelError for graphs of another form than data.representation loops, and for inputs that overlap.
ModelGraph statement_cost(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (schema.kind != data::CandidateKind::program || !data::are_loop_columns(schema.feature_count))
    throw ModelError(
        "model.type: statement_cost with {} node features, expected programs with {}: set data.representation to loops",
        schema.feature_count, Columns::count);
  auto inputs = chosen_inputs(settings);
  if (inputs.machine) inputs.columns.push_back({Columns::machine, Columns::kMachine});
  const bool gpu = data::are_gpu_columns(schema.feature_count);
  if (gpu && !inputs.columns.empty()) inputs.columns.push_back({Columns::gpu, Columns::kGpu});
  ModelGraph model{.whole_graphs_only =
                       "model.type: statement_cost, which scores whole graphs only, with segments of graphs; "
                       "set sampler.max_segment_nodes to 0"};
  GraphBuilder b;
  b.provide_features(schema.feature_count);
  const std::vector<int64_t> all_columns{schema.feature_count};
  const auto offset = b.buffer("offset", all_columns, 0.0), scale = b.buffer("scale", all_columns, 1.0);
  model.fits.push_back({FitSpec::Source::loop_columns, offset, scale});
  const auto columns_of = [&](const MatrixRef& nodes, int64_t first, int64_t count) {
    return b.csr_sum({{nodes, b.select(inference::kNodeFeatures, first, count)}});
  };
  const auto scaled = [&](const MatrixRef& nodes, int64_t first, int64_t count) {
    return b.emit(inference::Transform{.x = columns_of(nodes, first, count),
                                       .offset = offset,
                                       .scale = scale,
                                       .start = first,
                                       .clip = std::max(0.0, settings.statement_cost.clip)});
  };
  Value loops, others;
  if (inputs.loops) loops = scaled({Kind::loops}, Columns::loop, Columns::kLoop);
  std::vector<Value> joined;
  for (int32_t slot = 0; inputs.accesses && slot < Columns::kSlots; ++slot) {
    joined.push_back(scaled({Kind::access, slot}, Columns::access, Columns::kAccess));
    if (gpu) joined.push_back(scaled({Kind::access, slot}, Columns::gpu_access, Columns::kGpuAccess));
  }
  for (const auto& [first, count] : inputs.columns) joined.push_back(scaled({Kind::statements}, first, count));
  if (!joined.empty()) others = b.join(joined);
  const MatrixRef statements_of{Kind::statements_of}, program_of{Kind::program_of};
  Value iterations = columns_of({Kind::statements}, Columns::critical, 1);
  if (settings.statement_cost.roofline)
    iterations = b.add({iterations, columns_of({Kind::statements}, Columns::roofline, 1)});
  const Value launches = b.csr_sum({{statements_of, columns_of({Kind::statements}, Columns::launches, 1)}});
  std::vector<Value> scores;
  for (int64_t m = 0; m < settings.ensemble_size; ++m) {
    const GraphBuilder::Scope scope(b, fmt::format("members.{}", m));
    const auto [each, failure] = statement_outputs(b, settings, loops, others);
    const auto launch_cost = b.parameter("launch_cost", {1}, {Initial::Kind::constant, kFirstLaunchCost});
    const GraphBuilder::FullPrecision full(b);  // sums of exponentials need all bits
    const Value costs = b.add({each, iterations});
    // As log-sum-exp is taken: over the largest.
    const Value largest = b.detached(b.pool(costs, statements_of, Pooled::max));
    const Value spread = b.csr_sum({{program_of, largest}});
    const Value statements = b.csr_sum({{statements_of, b.function(b.add({costs, spread}, {1.0, -1.0}), Mode::exp)}});
    const Value launch = b.function(b.add({largest}, {-1.0}, launch_cost), Mode::exp);
    const Value total = b.function(b.add({statements, b.multiply(launches, launch)}), Mode::log);
    scores.push_back(b.emit(inference::Add{.inputs = {total, largest}, .constant = -std::log(kNanoseconds)}));
    if (failure.defined()) scores.push_back(failure);
  }
  const int64_t columns = output_columns(settings);
  b.begin_score(b.join(scores));
  for (int32_t m = 0; m < settings.ensemble_size; ++m)
    model.member_scores.push_back(settings.ensemble_size == 1 ? inference::kEmbedded
                                                              : b.select(inference::kEmbedded, m * columns, columns));
  model.graph = b.finish({}, b.average(model.member_scores));
  model.graph.statements = true;
  model.tensors = b.tensors();
  return model;
}

}  // namespace foretime::models
