#include "models/autograd/top_nodes_gpu.h"

#include <limits>
#include <utility>

#include <ATen/Dispatch.h>

#include "models/gpu/launch.h"
#include "models/gpu/top_nodes_kernels.h"

namespace foretime::models {
namespace {

using gpu::for_each;

gpu::GraphNodes bounds_of(const GraphBatch& graphs) {
  return {graphs.device_ptr.data_ptr<int32_t>(), graphs.graph_of.data_ptr<int32_t>()};
}

gpu::MatrixRows rows_of_pooled(const CsrTensor& matrix) {
  return {matrix.row_ptr.defined() ? matrix.row_ptr.data_ptr<int32_t>() : nullptr, matrix.columns.data_ptr<int32_t>()};
}

void make_own_transpose(CsrTensor& matrix) {
  matrix.transposed_row_ptr = matrix.row_ptr;
  matrix.transposed_columns = matrix.columns;
  matrix.transposed_values = matrix.values;
}

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
  make_own_transpose(to);
  return to;
}

}  // namespace

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
             gpu::ScorePlaces<scalar_t>{of, scores.data_ptr<scalar_t>(), -std::numeric_limits<double>::infinity(),
                                        places.data_ptr<int32_t>(), sorted.data_ptr<double>()},
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
  make_own_transpose(matrix);
  return matrix;
}

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

}  // namespace foretime::models
