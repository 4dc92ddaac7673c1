#include "models/sparse/edge_ops.h"

#include <fmt/format.h>

#include "inference/kernels/edge_kernels.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

using namespace inference;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

EntryRows rows_of(const torch::Tensor& row_ptr, const torch::Tensor& columns, const torch::Tensor& position = {}) {
  return {row_ptr.size(0) - 1, row_ptr.data_ptr<int64_t>(), columns.data_ptr<int32_t>(),
          position.defined() ? position.data_ptr<int32_t>() : nullptr};
}

/// In the type of the matrix, contiguous.
torch::Tensor taken(const CsrTensor& matrix, const torch::Tensor& x) {
  const auto type = matrix.values.defined() ? matrix.values.scalar_type() : torch::kFloat;
  return x.to(type).contiguous();
}

void expect(bool condition, const char* what, int64_t found, int64_t expected) {
  if (!condition) throw ModelError(fmt::format("sparse matrix: {}: {}, expected {}", what, found, expected));
}

torch::Tensor run_weighted(const EntryRows& rows, const torch::Tensor& weights, const torch::Tensor& x) {
  const int64_t heads = weights.size(1);
  auto out = torch::empty({rows.rows, x.size(1)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "weighted_sum", [&] {
    weighted_rows<scalar_t>(rows, weights.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), heads, x.size(1) / heads,
                            out.data_ptr<scalar_t>());
  });
  return out;
}

torch::Tensor run_dots(const EntryRows& rows, const torch::Tensor& a, const torch::Tensor& b, int64_t heads) {
  auto out = torch::empty({rows.row_ptr[rows.rows], heads}, a.options());
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "entry_products", [&] {
    entry_dots<scalar_t>(rows, a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), heads, a.size(1) / heads,
                         out.data_ptr<scalar_t>());
  });
  return out;
}

/// What the gradients of the two products need: the matrix and its transpose.
variable_list both_ways(const CsrTensor& matrix) {
  return {matrix.row_ptr, matrix.columns, matrix.transposed_row_ptr, matrix.transposed_columns,
          transposed_entries(matrix)};
}

// The two products are each other's gradients: of Σ_e w_e x_column by w a product of entries, by x the weighted sum
// over the transpose; and the other way round.

struct WeightedSum : torch::autograd::Function<WeightedSum> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& weights, const torch::Tensor& x,
                               const CsrTensor& matrix) {
    if (matrix.transposed_row_ptr.defined()) {
      auto saved = both_ways(matrix);
      saved.insert(saved.end(), {weights, x});
      context->save_for_backward(saved);
    }
    return run_weighted(rows_of(matrix.row_ptr, matrix.columns), weights, x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto gradient = gradients[0].contiguous();
    const auto &weights = saved[5], &x = saved[6];
    return {run_dots(rows_of(saved[0], saved[1]), gradient, x, weights.size(1)),
            run_weighted(rows_of(saved[2], saved[3], saved[4]), weights, gradient), torch::Tensor()};
  }
};

struct EntryProducts : torch::autograd::Function<EntryProducts> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& a, const torch::Tensor& b,
                               const CsrTensor& matrix, int64_t heads) {
    if (matrix.transposed_row_ptr.defined()) {
      auto saved = both_ways(matrix);
      saved.insert(saved.end(), {a, b});
      context->save_for_backward(saved);
    }
    return run_dots(rows_of(matrix.row_ptr, matrix.columns), a, b, heads);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto gradient = gradients[0].contiguous();
    return {run_weighted(rows_of(saved[0], saved[1]), gradient, saved[6]),
            run_weighted(rows_of(saved[2], saved[3], saved[4]), gradient, saved[5]), torch::Tensor(), torch::Tensor()};
  }
};

struct EdgeSoftmax : torch::autograd::Function<EdgeSoftmax> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits, const CsrTensor& matrix) {
    auto weights = torch::empty_like(logits);
    AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "edge_softmax", [&] {
      softmax_rows<scalar_t>(rows_of(matrix.row_ptr, matrix.columns),
                             matrix.values.defined() ? matrix.values.data_ptr<scalar_t>() : nullptr,
                             logits.data_ptr<scalar_t>(), logits.size(1), weights.data_ptr<scalar_t>());
    });
    context->save_for_backward({matrix.row_ptr, matrix.columns, weights});
    return weights;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto gradient = gradients[0].contiguous();
    auto result = torch::empty_like(gradient);
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "edge_softmax_backward", [&] {
      softmax_rows_gradient<scalar_t>(rows_of(saved[0], saved[1]), saved[2].data_ptr<scalar_t>(),
                                      gradient.data_ptr<scalar_t>(), gradient.size(1), result.data_ptr<scalar_t>());
    });
    return {result, torch::Tensor()};
  }
};

}  // namespace

torch::Tensor transposed_entries(const CsrTensor& matrix) {
  if (!matrix.columns.is_cpu())
    return std::get<1>(torch::sort(matrix.columns, /*stable=*/true, 0, false)).to(torch::kInt);
  auto position = torch::empty_like(matrix.columns);
  transposed_positions(rows_of(matrix.row_ptr, matrix.columns), matrix.cols,
                       matrix.transposed_row_ptr.data_ptr<int64_t>(), position.data_ptr<int32_t>());
  return position;
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
  gather.columns = entry_rows(matrix).to(torch::kInt);
  gather.transposed_row_ptr = matrix.row_ptr;
  gather.transposed_columns = torch::arange(gather.rows, gather.columns.options());
  return gather;
}

torch::Tensor edge_softmax(const CsrTensor& matrix, const torch::Tensor& logits) {
  const auto x = taken(matrix, logits);
  expect(x.size(0) == matrix.columns.size(0), "values of entries", x.size(0), matrix.columns.size(0));
  return x.is_cpu() ? EdgeSoftmax::apply(x, matrix) : edge_softmax_aten(matrix, x);
}

torch::Tensor weighted_sum(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x) {
  const auto w = taken(matrix, weights), states = taken(matrix, x);
  expect(w.size(0) == matrix.columns.size(0), "values of entries", w.size(0), matrix.columns.size(0));
  expect(states.size(0) == matrix.cols, "states", states.size(0), matrix.cols);
  expect(states.size(1) % w.size(1) == 0, "columns left over by the heads", states.size(1) % w.size(1), 0);
  return states.is_cpu() ? WeightedSum::apply(w, states, matrix) : weighted_sum_aten(matrix, w, states);
}

torch::Tensor entry_products(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b, int64_t heads) {
  const auto left = taken(matrix, a), right = taken(matrix, b);
  expect(left.size(0) == matrix.rows, "states of targets", left.size(0), matrix.rows);
  expect(right.size(0) == matrix.cols, "states of sources", right.size(0), matrix.cols);
  expect(left.size(1) == right.size(1), "columns of sources", right.size(1), left.size(1));
  expect(left.size(1) % heads == 0, "columns left over by the heads", left.size(1) % heads, 0);
  return left.is_cpu() ? EntryProducts::apply(left, right, matrix, heads)
                       : entry_products_aten(matrix, left, right, heads);
}

torch::Tensor edge_softmax_aten(const CsrTensor& matrix, const torch::Tensor& logits) {
  const auto rows = entry_rows(matrix);
  const auto index = rows.unsqueeze(1).expand_as(logits);
  const auto largest = torch::zeros({matrix.rows, logits.size(1)}, logits.options())
                           .scatter_reduce(0, index, logits.detach(), "amax", /*include_self=*/false);
  auto weights = torch::exp(logits - largest.gather(0, index));
  if (matrix.values.defined()) weights = weights * matrix.values.unsqueeze(1);
  const auto sums = torch::zeros({matrix.rows, logits.size(1)}, logits.options()).index_add(0, rows, weights);
  return weights / torch::where(sums == 0, torch::ones_like(sums), sums).gather(0, index);
}

torch::Tensor weighted_sum_aten(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x) {
  const int64_t heads = weights.size(1);
  const auto messages = x.index_select(0, matrix.columns).view({-1, heads, x.size(1) / heads}) * weights.unsqueeze(2);
  return torch::zeros({matrix.rows, x.size(1)}, x.options())
      .index_add(0, entry_rows(matrix), messages.view({-1, x.size(1)}));
}

torch::Tensor entry_products_aten(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b,
                                  int64_t heads) {
  const auto products = a.index_select(0, entry_rows(matrix)) * b.index_select(0, matrix.columns);
  return products.view({-1, heads, a.size(1) / heads}).sum(2);
}

}  // namespace foretime::models
