#include <limits>
#include <utility>

#include <ATen/Dispatch.h>

#include "base/index_range.h"
#include "models/autograd/autocast.h"
#include "models/autograd/run.h"
#include "models/gpu/launch.h"
#include "models/gpu/top_nodes_kernels.h"
#include "models/graph/error.h"
#include "models/sparse/sparse_ops.h"

namespace foretime::models {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSmallestNorm = 1e-12;
constexpr int64_t kWorthThreads = 8192;  // nodes

/// Returns the `kept_ptr` that top_nodes sets, which does not depend on scores.
std::vector<int64_t> kept_pointers(std::span<const int64_t> graph_ptr, double ratio) {
  std::vector<int64_t> kept_ptr = {0};
  for (size_t g = 0; g + 1 < graph_ptr.size(); ++g)
    kept_ptr.push_back(kept_ptr.back() + inference::kept_nodes(graph_ptr[g + 1] - graph_ptr[g], ratio));
  return kept_ptr;
}

/// Returns the matrix [kept, nodes] with a single 1 in each row that selects the kept states, and its transpose.
CsrTensor gather_of(const torch::Tensor& kept, int64_t nodes, torch::ScalarType row_ptr_type) {
  CsrTensor gather;
  gather.rows = kept.size(0);
  gather.cols = nodes;
  gather.columns = kept.to(torch::kInt);
  const auto stays = torch::zeros({nodes + 1}, kept.options()).index_fill(0, kept + 1, 1);
  gather.transposed_row_ptr = stays.cumsum(0).to(row_ptr_type);
  gather.transposed_columns = torch::arange(gather.rows, gather.columns.options());
  return gather;
}

void make_symmetric(CsrTensor& matrix) {
  matrix.transposed_row_ptr = matrix.row_ptr;
  matrix.transposed_columns = matrix.columns;
  matrix.transposed_values = matrix.values;
}

/// Returns the graphs of the kept nodes alone.
GraphBatch restricted(const GraphBatch& graphs, const torch::Tensor& kept, std::vector<int64_t> kept_ptr) {
  const CsrTensor& from = graphs.adjacency;
  const int64_t count = kept.size(0);
  const auto place = torch::full({from.rows}, -1, from.columns.options())
                         .index_copy(0, kept, torch::arange(count, from.columns.options()));
  const auto rows = place.index_select(0, graphs.entry_rows), columns = place.index_select(0, from.columns);
  const auto stay = ((rows >= 0) & (columns >= 0)).nonzero().view(-1);
  GraphBatch result;
  result.graph_ptr = std::move(kept_ptr);
  result.entry_rows = rows.index_select(0, stay);
  CsrTensor& to = result.adjacency;
  to.rows = to.cols = count;
  to.columns = columns.index_select(0, stay);
  to.values = from.values.index_select(0, stay);
  // Entries are in the order of their rows.
  to.row_ptr = torch::searchsorted(result.entry_rows, torch::arange(count + 1, result.entry_rows.options()))
                   .to(from.row_ptr.scalar_type());
  make_symmetric(to);
  return result;
}

// TopK pooling by the kernels of GPUs: results stay on the device, and the host waits for nothing.

using gpu::for_each;

gpu::GraphNodes bounds_of(const GraphBatch& graphs) {
  return {graphs.device_ptr.data_ptr<int32_t>(), graphs.graph_of.data_ptr<int32_t>()};
}

gpu::MatrixRows rows_of_pooled(const CsrTensor& matrix) {
  return {matrix.row_ptr.defined() ? matrix.row_ptr.data_ptr<int32_t>() : nullptr, matrix.columns.data_ptr<int32_t>()};
}

/// Holds the nodes that TopK pooling on a device keeps.
struct NodeChoice {
  torch::Tensor kept;    // [kept] int32, ascending
  torch::Tensor stays;   // [nodes] int32: 1 if the node is kept, else 0
  torch::Tensor before;  // [nodes + 1] int32: number of kept nodes before each node
  GraphBatch left;       // graphs of the kept nodes, without their adjacency
};

/// Returns the matrix between kept nodes. Only the device knows its number of entries: there is room for all.
CsrTensor restricted_on_gpu(const CsrTensor& from, const NodeChoice& choice, torch::ScalarType type) {
  const auto numbers = choice.kept.options();
  CsrTensor to;
  to.rows = to.cols = choice.kept.size(0);
  to.columns = torch::empty_like(from.columns);
  to.values = torch::empty(from.columns.sizes(), numbers.dtype(type));
  const auto counts = to.rows == 0 ? torch::zeros({1}, numbers) : torch::empty({to.rows + 1}, numbers);
  AT_DISPATCH_FLOATING_TYPES(type, "restricted_on_gpu", [&] {
    const gpu::Restriction<scalar_t> of{
        rows_of_pooled(from), from.values.defined() ? from.values.data_ptr<scalar_t>() : nullptr,
        choice.kept.data_ptr<int32_t>(), choice.stays.data_ptr<int32_t>(), choice.before.data_ptr<int32_t>()};
    for_each(numbers.device(), gpu::KeptEntryCounts<scalar_t>{of, counts.data_ptr<int32_t>()}, to.rows);
    to.row_ptr = torch::cumsum(counts, 0, torch::kInt);
    for_each(numbers.device(),
             gpu::KeptEntries<scalar_t>{of, to.row_ptr.data_ptr<int32_t>(), to.columns.data_ptr<int32_t>(),
                                        to.values.data_ptr<scalar_t>()},
             to.rows);
  });
  make_symmetric(to);
  return to;
}

/// Chooses nodes of `graphs` by the rule of top_nodes, which also describes `scores` [nodes], `ratio` and `tie`.
NodeChoice choose_nodes_on_gpu(const torch::Tensor& scores, double ratio, double tie, const GraphBatch& graphs) {
  const auto device = scores.device();
  const auto numbers = torch::dtype(torch::kInt).device(device);
  const int64_t count = graphs.graphs(), nodes = graphs.nodes();
  NodeChoice choice;
  GraphBatch& left = choice.left;
  left.graph_ptr = kept_pointers(graphs.graph_ptr, ratio);
  left.device_ptr = torch::empty({count + 1}, numbers);
  left.graph_of = torch::empty({left.nodes()}, numbers);
  left.counts = torch::empty({count}, scores.options());
  choice.kept = torch::empty({left.nodes()}, numbers);
  choice.stays = torch::empty({nodes}, numbers);
  choice.before = torch::empty({nodes + 1}, numbers);
  const auto places = torch::empty({nodes}, numbers), spans = torch::empty({2, count}, numbers);
  const auto sorted = torch::empty({nodes}, numbers.dtype(torch::kDouble));
  const auto of = bounds_of(graphs);
  int *kept_ptr = left.device_ptr.data_ptr<int32_t>(), *begin = spans.data_ptr<int32_t>(), *end = begin + count;
  int* stays = choice.stays.data_ptr<int32_t>();
  AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "choose_nodes_on_gpu", [&] {
    for_each(
        device,
        gpu::KeptPointers<scalar_t>{of.ptr, static_cast<int>(count), ratio, kept_ptr, left.counts.data_ptr<scalar_t>()},
        count + 1);
    for_each(device,
             gpu::ScorePlaces<scalar_t>{of, scores.data_ptr<scalar_t>(), -kInfinity, places.data_ptr<int32_t>(),
                                        sorted.data_ptr<double>()},
             nodes);
  });
  for_each(device, gpu::TieSpans{of.ptr, kept_ptr, sorted.data_ptr<double>(), tie, begin, end}, count);
  for_each(device, gpu::ChosenNodes{of, kept_ptr, places.data_ptr<int32_t>(), begin, end, stays}, nodes);
  for_each(device,
           gpu::KeptPlaces{of, static_cast<int>(nodes), static_cast<int>(left.nodes()), kept_ptr, stays,
                           choice.before.data_ptr<int32_t>(), choice.kept.data_ptr<int32_t>(),
                           left.graph_of.data_ptr<int32_t>()},
           nodes + 1);
  return choice;
}

/// Replaces `graphs` by the nodes of choose_nodes_on_gpu; returns the matrix [kept, nodes] that selects their states.
CsrTensor keep_nodes_on_gpu(const torch::Tensor& scores, double ratio, double tie, GraphBatch& graphs) {
  auto choice = choose_nodes_on_gpu(scores, ratio, tie, graphs);
  choice.left.adjacency = restricted_on_gpu(graphs.adjacency, choice, scores.scalar_type());
  CsrTensor gather;
  gather.rows = choice.kept.size(0);
  gather.cols = graphs.nodes();
  gather.columns = choice.kept;
  gather.transposed_row_ptr = choice.before;
  gather.transposed_columns = torch::arange(gather.rows, choice.kept.options());
  graphs = std::move(choice.left);
  return gather;
}

/// Computes symmetrically_normalized for graphs with this adjacency.
CsrTensor symmetrically_normalized_on_gpu(const CsrTensor& adjacency) {
  CsrTensor matrix = adjacency;
  const auto numbers = torch::dtype(matrix.values.scalar_type()).device(matrix.columns.device());
  matrix.values = torch::empty(matrix.columns.sizes(), numbers);
  const auto roots = torch::empty({matrix.rows}, numbers);
  AT_DISPATCH_FLOATING_TYPES(roots.scalar_type(), "symmetrically_normalized_on_gpu", [&] {
    const auto rows = rows_of_pooled(adjacency);
    const auto* values = adjacency.values.data_ptr<scalar_t>();
    for_each(roots.device(), gpu::DegreeRoots<scalar_t>{rows, values, roots.data_ptr<scalar_t>()}, matrix.rows);
    for_each(
        roots.device(),
        gpu::NormalizedValues<scalar_t>{rows, values, roots.data_ptr<scalar_t>(), matrix.values.data_ptr<scalar_t>()},
        matrix.rows);
  });
  make_symmetric(matrix);
  return matrix;
}

/// Computes pool_of; GraphBatch::counts must be defined.
PoolTensors pool_of_on_gpu(const GraphBatch& graphs, torch::ScalarType type) {
  CsrTensor members;
  members.rows = graphs.graphs();
  members.cols = graphs.nodes();
  const auto places = torch::arange(members.cols + 1, graphs.device_ptr.options());
  members.row_ptr = graphs.device_ptr;
  members.columns = places.narrow(0, 0, members.cols);
  members.transposed_row_ptr = places;
  members.transposed_columns = graphs.graph_of;
  return {{members}, graphs.counts.to(type).unsqueeze(1)};
}

/// Returns the result of choose_nodes_on_gpu as host memory.
std::vector<int64_t> top_nodes_on_gpu(const torch::Tensor& scores, std::span<const int64_t> graph_ptr, double ratio,
                                      double tie) {
  GraphBatch graphs;
  graphs.graph_ptr.assign(graph_ptr.begin(), graph_ptr.end());
  CsrTensor members;
  members.row_ptr = torch::tensor(graphs.graph_ptr).to(scores.device(), torch::kInt);
  members.columns = torch::arange(graphs.nodes(), members.row_ptr.options());
  graphs.device_ptr = members.row_ptr;
  graphs.graph_of = entry_rows(members);
  const auto kept = choose_nodes_on_gpu(scores, ratio, tie, graphs).kept.to(torch::kCPU, torch::kLong);
  return {kept.data_ptr<int64_t>(), kept.data_ptr<int64_t>() + kept.numel()};
}

}  // namespace

GraphBatch graphs_of(const PlanTensors& plan) {
  const torch::NoGradGuard no_gradient;
  if (plan.graph_ptr.empty())
    throw ModelError(
        "model.type: tpgnn: candidates of the message plan share states; expected consecutive states for each alone");
  const CsrTensor& members = plan.nodes.stages.front();
  GraphBatch graphs;
  graphs.graph_ptr = plan.graph_ptr;
  graphs.adjacency = plan.layers.front()->relations.front();
  if (gpu::uses_gpu_kernels(members.columns.device())) {
    graphs.device_ptr = members.row_ptr;
    graphs.graph_of = entry_rows(members);
    make_symmetric(graphs.adjacency);
    return graphs;
  }
  const auto counts = graphs.adjacency.row_ptr.diff().to(torch::kLong);
  graphs.entry_rows = torch::arange(graphs.adjacency.rows, counts.options()).repeat_interleave(counts).to(torch::kInt);
  make_symmetric(graphs.adjacency);
  return graphs;
}

CsrTensor symmetrically_normalized(const GraphBatch& graphs) {
  const torch::NoGradGuard no_gradient;
  if (graphs.device_ptr.defined()) return symmetrically_normalized_on_gpu(graphs.adjacency);
  CsrTensor matrix = graphs.adjacency;
  const auto degrees = csr_matmul(matrix, torch::ones({matrix.cols, 1}, matrix.values.options())).view(-1);
  const auto root = degrees.rsqrt();  // the self loop keeps it above 0
  matrix.values = matrix.values * root.index_select(0, graphs.entry_rows) * root.index_select(0, matrix.columns);
  make_symmetric(matrix);
  return matrix;
}

PoolTensors pool_of(const GraphBatch& graphs, torch::ScalarType type) {
  const torch::NoGradGuard no_gradient;
  const CsrTensor& adjacency = graphs.adjacency;
  if (graphs.device_ptr.defined()) return pool_of_on_gpu(graphs, type);
  const auto host =
      torch::from_blob(const_cast<int64_t*>(graphs.graph_ptr.data()), {graphs.graphs() + 1}, torch::kLong);
  const auto ptr = host.to(adjacency.row_ptr.options(), /*non_blocking=*/false, /*copy=*/true);
  const auto counts = host.diff();
  CsrTensor members;
  members.rows = graphs.graphs();
  members.cols = graphs.nodes();
  members.row_ptr = ptr;
  members.columns = torch::arange(members.cols, adjacency.columns.options());
  members.transposed_row_ptr = torch::arange(members.cols + 1, ptr.options());
  members.transposed_columns =
      torch::arange(members.rows, torch::kLong).repeat_interleave(counts).to(adjacency.columns.options());
  PoolTensors pool;
  pool.stages.push_back(members);
  pool.counts = counts.to(adjacency.values.options().dtype(type)).unsqueeze(1);
  return pool;
}

std::vector<int64_t> top_nodes(const torch::Tensor& scores, std::span<const int64_t> graph_ptr, double ratio,
                               double tie, std::vector<int64_t>& kept_ptr) {
  kept_ptr = kept_pointers(graph_ptr, ratio);
  if (gpu::uses_gpu_kernels(scores.device())) return top_nodes_on_gpu(scores.contiguous(), graph_ptr, ratio, tie);
  // A sort must not meet NaN; an infinite score makes all of its graph's nodes tied.
  const auto host = scores.detach().to(torch::kCPU, torch::kDouble).nan_to_num(-kInfinity, kInfinity, -kInfinity);
  const double* values = host.data_ptr<double>();
  const auto graphs = std::ssize(graph_ptr) - 1;
  std::vector<int64_t> kept(kept_ptr.back());
#pragma omp parallel for schedule(static) if (graph_ptr.back() > kWorthThreads)
  for (int64_t g = 0; g < graphs; ++g) {
    const auto own = entries_of(graph_ptr, g), chosen = entries_of(kept_ptr, g);
    inference::choose_nodes(std::span(values + own.first(), own.size()), chosen.size(), tie, own.first(),
                            kept.data() + chosen.first());
  }
  return kept;
}

torch::Tensor keep_top_nodes(const inference::TopNodes& operation, const torch::Tensor& x, const torch::Tensor& weight,
                             GraphBatch& graphs) {
  // Nodes that differ by less than a bfloat16's 8 bits keep their order.
  const Autocast full(x.device(), /*mixed=*/false);
  const auto states = x.to(weight.scalar_type());
  const auto score = torch::mv(states, weight) / weight.norm().clamp_min(kSmallestNorm);
  // The tie is given in units of float32; in double precision rounding is that much finer.
  constexpr double kFinerInDouble = 0x1p-29;
  const double tie = operation.tie * (score.scalar_type() == torch::kDouble ? kFinerInDouble : 1.0);
  if (graphs.device_ptr.defined()) {
    CsrTensor gather;
    {
      const torch::NoGradGuard no_gradient;
      gather = keep_nodes_on_gpu(score.contiguous(), operation.ratio, tie, graphs);
    }
    return csr_matmul(gather, states) * torch::tanh(csr_matmul(gather, score.unsqueeze(1)));
  }
  std::vector<int64_t> kept_ptr;
  auto chosen = top_nodes(score, graphs.graph_ptr, operation.ratio, tie, kept_ptr);
  const auto kept = torch::from_blob(chosen.data(), {std::ssize(chosen)}, torch::kLong)
                        .to(x.device(), torch::kLong, /*non_blocking=*/false, /*copy=*/true);
  const auto gather = gather_of(kept, graphs.nodes(), graphs.adjacency.row_ptr.scalar_type());
  {
    const torch::NoGradGuard no_gradient;
    graphs = restricted(graphs, kept, std::move(kept_ptr));
  }
  return csr_matmul(gather, states) * torch::tanh(csr_matmul(gather, score.unsqueeze(1)));
}

}  // namespace foretime::models
