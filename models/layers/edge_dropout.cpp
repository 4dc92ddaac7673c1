#include "models/layers/edge_dropout.h"

#include "models/sparse/edge_ops.h"

namespace foretime::models {
namespace {

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
  const auto rows = entry_rows(matrix);
  const auto own = (self.defined() ? self.index_select(0, rows) : rows) == matrix.columns;
  const auto drawn = torch::rand({matrix.columns.size(0)}, torch::device(matrix.columns.device())) >= probability;
  const auto kept = drawn | own;
  const auto all = matrix.values.defined() ? matrix.values : torch::ones(matrix.columns.sizes());
  const auto values = torch::where(own, all, all / (1.0 - probability));
  const auto turned = transposed_entries(matrix).to(torch::kLong);

  CsrTensor result;
  result.rows = matrix.rows;
  result.cols = matrix.cols;
  const auto forward = entries_kept(matrix.row_ptr, matrix.columns, values, kept);
  result.row_ptr = forward.row_ptr;
  result.columns = forward.columns;
  result.values = forward.values;
  const auto backward = entries_kept(matrix.transposed_row_ptr, matrix.transposed_columns,
                                     values.index_select(0, turned), kept.index_select(0, turned));
  result.transposed_row_ptr = backward.row_ptr;
  result.transposed_columns = backward.columns;
  result.transposed_values = backward.values;
  return result;
}

}  // namespace

LayerTensors drop_messages(const LayerTensors& layer, double probability) {
  LayerTensors result;
  result.self = layer.self;
  for (const auto& relation : layer.relations)
    result.relations.push_back(without_some(relation, layer.self.columns, probability));
  return result;
}

}  // namespace foretime::models
