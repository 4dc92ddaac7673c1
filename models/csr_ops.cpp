#include "models/csr_ops.h"

#include <fmt/format.h>

#include "models/csr_kernels.h"
#include "models/error.h"

namespace foretime::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Sums over rows run in float32 where the states come from a product in bfloat16.
torch::Tensor widened(const torch::Tensor& x) { return x.scalar_type() == torch::kBFloat16 ? x.to(torch::kFloat) : x; }

void check_product(const CsrTensor& matrix, const torch::Tensor& x) {
  if (x.dim() != 2 || x.size(0) != matrix.cols) {
    throw ModelError(
        fmt::format("sparse product: states have {} rows, expected {}", x.dim() > 0 ? x.size(0) : 0, matrix.cols));
  }
  if (x.scalar_type() != matrix.values.scalar_type()) {
    throw ModelError(fmt::format("sparse product: states are {}, the matrix is {}", c10::toString(x.scalar_type()),
                                 c10::toString(matrix.values.scalar_type())));
  }
}

/// sum_rows on tensors in host memory; `values` undefined stands for ones.
torch::Tensor sum_rows_of(int64_t rows, const torch::Tensor& row_ptr, const torch::Tensor& columns,
                          const torch::Tensor& values, const torch::Tensor& states) {
  const auto x = states.contiguous();
  auto out = torch::empty({rows, x.size(1)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sum_rows", [&] {
    sum_rows<scalar_t>(rows, row_ptr.data_ptr<int64_t>(), columns.data_ptr<int32_t>(),
                       values.defined() ? values.data_ptr<scalar_t>() : nullptr, x.data_ptr<scalar_t>(), x.size(1),
                       out.data_ptr<scalar_t>());
  });
  return out;
}

struct CsrProduct : torch::autograd::Function<CsrProduct> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const CsrTensor& matrix) {
    context->save_for_backward({matrix.transposed_row_ptr, matrix.transposed_columns, matrix.transposed_values});
    return sum_rows_of(matrix.rows, matrix.row_ptr, matrix.columns, matrix.values, x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {sum_rows_of(saved[0].size(0) - 1, saved[0], saved[1], saved[2], gradients[0]), torch::Tensor()};
  }
};

struct CsrMaximum : torch::autograd::Function<CsrMaximum> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& states, const CsrTensor& pattern) {
    const auto x = states.contiguous();
    auto out = torch::empty({pattern.rows, x.size(1)}, x.options());
    auto winner = torch::empty({pattern.rows, x.size(1)}, torch::kInt);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "csr_max", [&] {
      max_rows<scalar_t>(pattern.rows, pattern.row_ptr.data_ptr<int64_t>(), pattern.columns.data_ptr<int32_t>(),
                         x.data_ptr<scalar_t>(), x.size(1), out.data_ptr<scalar_t>(), winner.data_ptr<int32_t>());
    });
    context->save_for_backward({winner});
    context->saved_data["cols"] = pattern.cols;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto winner = context->get_saved_variables()[0];
    const auto gradient = gradients[0].contiguous();
    auto result = torch::zeros({context->saved_data["cols"].toInt(), gradient.size(1)}, gradient.options());
    // Serial, since rows may share winners; a readout has few rows.
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "csr_max_backward", [&] {
      const int32_t* from = winner.data_ptr<int32_t>();
      const scalar_t* in = gradient.data_ptr<scalar_t>();
      scalar_t* out = result.data_ptr<scalar_t>();
      const int64_t width = gradient.size(1);
      for (int64_t i = 0; i < gradient.numel(); ++i) {
        if (from[i] >= 0) out[from[i] * width + i % width] += in[i];
      }
    });
    return {result, torch::Tensor()};
  }
};

struct RowGather : torch::autograd::Function<RowGather> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& index) {
    context->save_for_backward({index});
    context->saved_data["rows"] = x.size(0);
    return x.index_select(0, index);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto index = context->get_saved_variables()[0].contiguous();
    const int64_t rows = context->saved_data["rows"].toInt();
    auto row_ptr = torch::empty({rows + 1}, torch::kLong);
    auto positions = torch::empty({index.size(0)}, torch::kInt);
    if (!group_by_value(index.data_ptr<int64_t>(), index.size(0), rows, row_ptr.data_ptr<int64_t>(),
                        positions.data_ptr<int32_t>())) {
      throw ModelError(fmt::format("gather: an index is outside of [0, {})", rows));
    }
    return {sum_rows_of(rows, row_ptr, positions, torch::Tensor(), gradients[0]), torch::Tensor()};
  }
};

/// The row of each entry.
torch::Tensor entry_rows(const CsrTensor& matrix) {
  const auto counts = matrix.row_ptr.slice(0, 1) - matrix.row_ptr.slice(0, 0, matrix.rows);
  return torch::arange(matrix.rows, counts.options()).repeat_interleave(counts);
}

}  // namespace

torch::Tensor csr_matmul(const CsrTensor& matrix, const torch::Tensor& states) {
  const auto x = widened(states);
  check_product(matrix, x);
  return x.is_cpu() ? CsrProduct::apply(x, matrix) : csr_matmul_aten(matrix, x);
}

torch::Tensor csr_max(const CsrTensor& pattern, const torch::Tensor& states) {
  const auto x = widened(states);
  check_product(pattern, x);
  return x.is_cpu() ? CsrMaximum::apply(x, pattern) : csr_max_aten(pattern, x);
}

torch::Tensor gather_rows(const torch::Tensor& states, const torch::Tensor& index) {
  const auto x = widened(states);
  return x.is_cpu() ? RowGather::apply(x, index) : x.index_select(0, index);
}

torch::Tensor csr_row_sums(const CsrTensor& matrix) {
  return csr_matmul(matrix, torch::ones({matrix.cols, 1}, matrix.values.options()));
}

torch::Tensor csr_matmul_aten(const CsrTensor& matrix, const torch::Tensor& x) {
  const auto messages = x.index_select(0, matrix.columns) * matrix.values.unsqueeze(1);
  return torch::zeros({matrix.rows, x.size(1)}, x.options()).index_add(0, entry_rows(matrix), messages);
}

torch::Tensor csr_max_aten(const CsrTensor& pattern, const torch::Tensor& x) {
  const int64_t entries = pattern.columns.size(0), width = x.size(1);
  const auto messages = x.index_select(0, pattern.columns);
  const auto rows = entry_rows(pattern).unsqueeze(1).expand({entries, width});
  // The first entry that attains the maximum of its row; `entries` stands for none, and picks the row of zeros at the
  // end.
  const auto values = messages.detach();
  const auto maximum = torch::zeros({pattern.rows, width}, x.options()).scatter_reduce(0, rows, values, "amax", false);
  const auto attains = (values == maximum.gather(0, rows)) | torch::isnan(values);
  const auto position = torch::arange(entries, rows.options()).unsqueeze(1).expand({entries, width});
  const auto first = torch::full({pattern.rows, width}, entries, rows.options())
                         .scatter_reduce(0, rows, position.masked_fill(~attains, entries), "amin");
  return torch::cat({messages, torch::zeros({1, width}, x.options())}).gather(0, first);
}

}  // namespace foretime::models
