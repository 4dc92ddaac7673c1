#include "models/sparse/sparse_ops.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "inference/kernels/sparse_kernels.h"
#include "models/gpu/launch.h"
#include "models/graph/error.h"
#include "models/sparse/sparse_kernels.h"

namespace foretime::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_reduced(torch::ScalarType type) { return type == torch::kBFloat16 || type == torch::kHalf; }

/// x, in the type of the matrix where its own has less precision.
torch::Tensor checked(const CsrTensor& matrix, const torch::Tensor& x) {
  FORETIME_CHECK(x.dim() == 2 && x.size(0) == matrix.cols, "a matrix of {} columns", matrix.cols);
  const auto wanted = matrix.values.defined() ? matrix.values.scalar_type() : torch::kFloat;
  if (is_reduced(x.scalar_type())) return x.to(wanted);
  FORETIME_CHECK(!matrix.values.defined() || x.scalar_type() == wanted, "states are {}, the matrix is {}",
                 c10::toString(x.scalar_type()), c10::toString(wanted));
  return x;
}

/// Inputs are the terms' x, then the bias where there is one; the matrices come along as they are.
struct CsrSumFunction : torch::autograd::Function<CsrSumFunction> {
  static torch::Tensor forward(AutogradContext* context, const std::vector<CsrTensor>& matrices, double slope,
                               at::TensorList inputs) {
    std::vector<RowsTerm> terms;
    for (size_t t = 0; t < matrices.size(); ++t) terms.push_back({rows_of(matrices[t]), inputs[t]});
    const bool has_bias = inputs.size() > matrices.size();
    const auto out = csr_sum_kernel(terms, {has_bias ? inputs.back() : torch::Tensor(), slope});
    variable_list saved;
    for (const auto& m : matrices) transposed_rows_of(m).append_to(saved);
    if (slope != 1.0) saved.push_back(out);
    context->save_for_backward(saved);
    context->saved_data["slope"] = slope;
    context->saved_data["has_bias"] = has_bias;
    context->saved_data["terms"] = std::ssize(matrices);
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const double slope = context->saved_data["slope"].toDouble();
    auto gradient = gradients[0].contiguous();
    if (slope != 1.0) gradient = activation_gradient_kernel(gradient, saved.back(), slope);
    variable_list result = {torch::Tensor(), torch::Tensor()};  // matrices, slope
    const size_t terms = context->saved_data["terms"].toInt();
    for (size_t t = 0; t < terms; ++t) {
      const bool wanted = context->needs_input_grad(t);
      result.push_back(wanted ? csr_sum_kernel({{CsrRows::from(saved, t * CsrRows::kTensors), gradient}}, {})
                              : torch::Tensor());
    }
    if (context->saved_data["has_bias"].toBool()) result.push_back(gradient.sum(0));
    return result;
  }
};

struct CsrMaxFunction : torch::autograd::Function<CsrMaxFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& states, const CsrTensor& pattern) {
    const auto found = csr_max_kernel(rows_of(pattern), states.contiguous());
    variable_list saved = {found.winners};
    transposed_rows_of(pattern).append_to(saved);
    context->save_for_backward(saved);
    return found.values;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {csr_max_gradient_kernel(CsrRows::from(saved, 1), saved[0], gradients[0].contiguous()), torch::Tensor()};
  }
};

/// Returns x contiguous and in the type of the matrix.
torch::Tensor taken(const CsrTensor& matrix, const torch::Tensor& x) {
  const auto type = matrix.values.defined() ? matrix.values.scalar_type() : torch::kFloat;
  return x.to(type).contiguous();
}

void expect(bool condition, const char* what, int64_t found, int64_t expected) {
  FORETIME_CHECK(condition, "sparse matrix: {}: {}, expected {}", what, found, expected);
}

/// Saves the tensors for the gradients of both products: the matrix and its transpose, then `inputs`.
void save_both_ways(AutogradContext* context, const CsrTensor& matrix, const variable_list& inputs) {
  if (!matrix.transposed_row_ptr.defined()) return;
  variable_list saved;
  rows_of(matrix).append_to(saved);
  auto turned = transposed_rows_of(matrix);
  turned.position = transposed_entries(matrix);
  turned.append_to(saved);
  saved.insert(saved.end(), inputs.begin(), inputs.end());
  context->save_for_backward(saved);
}

struct BothWays {
  explicit BothWays(AutogradContext* context)
      : saved(context->get_saved_variables()),
        matrix(CsrRows::from(saved, 0)),
        transposed(CsrRows::from(saved, CsrRows::kTensors)) {}
  const torch::Tensor& input(size_t i) const { return saved[2 * CsrRows::kTensors + i]; }
  variable_list saved;
  CsrRows matrix, transposed;
};

// The two products are each other's gradients, by x over the transpose.

struct WeightedSumFunction : torch::autograd::Function<WeightedSumFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& weights, const torch::Tensor& x,
                               const CsrTensor& matrix) {
    save_both_ways(context, matrix, {weights, x});
    return weighted_sum_kernel(rows_of(matrix), weights, x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const BothWays both(context);
    const auto gradient = gradients[0].contiguous();
    const auto &weights = both.input(0), &x = both.input(1);
    return {entry_products_kernel(both.matrix, gradient, x, weights.size(1)),
            weighted_sum_kernel(both.transposed, weights, gradient), torch::Tensor()};
  }
};

struct EntryProductsFunction : torch::autograd::Function<EntryProductsFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& a, const torch::Tensor& b,
                               const CsrTensor& matrix, int64_t heads) {
    save_both_ways(context, matrix, {a, b});
    return entry_products_kernel(rows_of(matrix), a, b, heads);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const BothWays both(context);
    const auto gradient = gradients[0].contiguous();
    return {weighted_sum_kernel(both.matrix, gradient, both.input(1)),
            weighted_sum_kernel(both.transposed, gradient, both.input(0)), torch::Tensor(), torch::Tensor()};
  }
};

struct EdgeSoftmaxFunction : torch::autograd::Function<EdgeSoftmaxFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits, const CsrTensor& matrix) {
    const auto rows = rows_of(matrix);
    auto weights = edge_softmax_kernel(rows, logits);
    variable_list saved = {weights};
    rows.append_to(saved);
    context->save_for_backward(saved);
    return weights;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {edge_softmax_gradient_kernel(CsrRows::from(saved, 1), saved[0], gradients[0].contiguous()),
            torch::Tensor()};
  }
};

}  // namespace

torch::Tensor csr_sum(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue) {
  FORETIME_CHECK(!terms.empty());
  std::vector<CsrTensor> matrices;
  std::vector<torch::Tensor> xs;
  for (const auto& [matrix, x] : terms) {
    matrices.push_back(*matrix);
    xs.push_back(checked(*matrix, x));
    FORETIME_CHECK(matrix->rows == terms.front().first->rows && xs.back().size(1) == xs.front().size(1),
                   "a term of {} rows and {} columns, the first of {} and {}", matrix->rows, xs.back().size(1),
                   terms.front().first->rows, xs.front().size(1));
  }
  if (epilogue.bias.defined()) xs.push_back(epilogue.bias);
  return CsrSumFunction::apply(matrices, epilogue.slope, at::TensorList(xs));
}

torch::Tensor csr_matmul(const CsrTensor& matrix, const torch::Tensor& x) { return csr_sum({{&matrix, x}}); }

torch::Tensor csr_max(const CsrTensor& pattern, const torch::Tensor& x) {
  const auto states = checked(pattern, x);
  return CsrMaxFunction::apply(states, pattern);
}

torch::Tensor transposed_entries(const CsrTensor& matrix) {
  if (matrix.transposed_positions.defined()) return matrix.transposed_positions;
  if (gpu::uses_gpu_kernels(matrix.columns.device()))
    return std::get<1>(torch::sort(matrix.columns, /*stable=*/true, 0, false)).to(torch::kInt);
  auto position = torch::empty_like(matrix.columns);
  inference::transposed_positions({matrix.rows, matrix.row_ptr.data_ptr<int64_t>(), matrix.columns.data_ptr<int32_t>()},
                                  matrix.cols, matrix.transposed_row_ptr.data_ptr<int64_t>(),
                                  position.data_ptr<int32_t>());
  return position;
}

torch::Tensor entry_rows(const CsrTensor& matrix) {
  if (!matrix.row_ptr.defined()) return torch::arange(matrix.rows, matrix.columns.options());
  if (gpu::uses_gpu_kernels(matrix.columns.device())) return entry_rows_on_gpu(matrix.row_ptr, matrix.columns.size(0));
  const auto counts = matrix.row_ptr.slice(0, 1) - matrix.row_ptr.slice(0, 0, matrix.rows);
  return torch::arange(matrix.rows, matrix.columns.options()).repeat_interleave(counts);
}

CsrTensor entry_sources(const CsrTensor& matrix) {
  CsrTensor gather;
  gather.rows = matrix.columns.size(0);
  gather.cols = matrix.cols;
  gather.columns = matrix.columns;
  if (!matrix.transposed_row_ptr.defined()) return gather;
  gather.transposed_row_ptr = matrix.transposed_row_ptr;
  gather.transposed_columns = transposed_entries(matrix);
  return gather;
}

CsrTensor entry_targets(const CsrTensor& matrix) {
  CsrTensor gather;
  gather.rows = matrix.columns.size(0);
  gather.cols = matrix.rows;
  gather.columns = entry_rows(matrix);
  gather.transposed_row_ptr = matrix.row_ptr;
  gather.transposed_columns = torch::arange(gather.rows, gather.columns.options());
  return gather;
}

torch::Tensor edge_softmax(const CsrTensor& matrix, const torch::Tensor& logits) {
  const auto x = taken(matrix, logits);
  expect(x.size(0) == matrix.columns.size(0), "values of entries", x.size(0), matrix.columns.size(0));
  return EdgeSoftmaxFunction::apply(x, matrix);
}

torch::Tensor weighted_sum(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x) {
  const auto w = taken(matrix, weights), states = taken(matrix, x);
  expect(w.size(0) == matrix.columns.size(0), "values of entries", w.size(0), matrix.columns.size(0));
  expect(states.size(0) == matrix.cols, "states", states.size(0), matrix.cols);
  expect(states.size(1) % w.size(1) == 0, "columns left over by the heads", states.size(1) % w.size(1), 0);
  return WeightedSumFunction::apply(w, states, matrix);
}

torch::Tensor entry_products(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b, int64_t heads) {
  const auto left = taken(matrix, a), right = taken(matrix, b);
  expect(left.size(0) == matrix.rows, "states of targets", left.size(0), matrix.rows);
  expect(right.size(0) == matrix.cols, "states of sources", right.size(0), matrix.cols);
  expect(left.size(1) == right.size(1), "columns of sources", right.size(1), left.size(1));
  expect(left.size(1) % heads == 0, "columns left over by the heads", left.size(1) % heads, 0);
  return EntryProductsFunction::apply(left, right, matrix, heads);
}

}  // namespace foretime::models
