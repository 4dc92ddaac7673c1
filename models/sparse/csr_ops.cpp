#include "models/sparse/csr_ops.h"

#include <fmt/format.h>

#include "inference/kernels/csr_kernels.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

using namespace inference;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_reduced(torch::ScalarType type) { return type == torch::kBFloat16 || type == torch::kHalf; }

/// x, in the type of the matrix where its own has less precision.
torch::Tensor checked(const CsrTensor& matrix, const torch::Tensor& x) {
  if (x.dim() != 2 || x.size(0) != matrix.cols) {
    throw ModelError(
        fmt::format("sparse product: states have {} rows, expected {}", x.dim() > 0 ? x.size(0) : 0, matrix.cols));
  }
  const auto wanted = matrix.values.defined() ? matrix.values.scalar_type() : torch::kFloat;
  if (is_reduced(x.scalar_type())) return x.to(wanted);
  if (matrix.values.defined() && x.scalar_type() != wanted) {
    throw ModelError(fmt::format("sparse product: states are {}, the matrix is {}", c10::toString(x.scalar_type()),
                                 c10::toString(wanted)));
  }
  return x;
}

/// sum_terms on tensors in host memory.
torch::Tensor cpu_sum(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue) {
  const int64_t rows = terms.front().first->rows, width = terms.front().second.size(1);
  auto out = torch::empty({rows, width}, terms.front().second.options());
  const auto bias = epilogue.bias.defined() ? epilogue.bias.to(out.scalar_type()).contiguous() : torch::Tensor();
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "csr_sum", [&] {
    std::vector<CsrTerm<scalar_t>> raw;
    std::vector<torch::Tensor> kept;
    for (const auto& [matrix, x] : terms) {
      kept.push_back(x.contiguous());
      raw.push_back({matrix->row_ptr.defined() ? matrix->row_ptr.data_ptr<int64_t>() : nullptr,
                     matrix->columns.data_ptr<int32_t>(),
                     matrix->values.defined() ? matrix->values.data_ptr<scalar_t>() : nullptr,
                     kept.back().data_ptr<scalar_t>()});
    }
    const Epilogue<scalar_t> after{bias.defined() ? bias.data_ptr<scalar_t>() : nullptr,
                                   static_cast<scalar_t>(epilogue.slope)};
    sum_terms<scalar_t>(rows, raw.data(), static_cast<int64_t>(raw.size()), after, width, out.data_ptr<scalar_t>());
  });
  return out;
}

/// One product on a GPU.
torch::Tensor device_product(const CsrTensor& matrix, const torch::Tensor& x) {
  if (!matrix.row_ptr.defined()) return x.index_select(0, matrix.columns);
  const auto values = matrix.values.defined() ? matrix.values : torch::ones({matrix.columns.size(0)}, x.options());
  const auto sparse = torch::sparse_csr_tensor(matrix.row_ptr, matrix.columns, values, {matrix.rows, matrix.cols},
                                               values.options().layout(torch::kSparseCsr));
  return torch::mm(sparse, x);
}

torch::Tensor forward_sum(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue) {
  if (terms.front().second.is_cpu()) return cpu_sum(terms, epilogue);
  torch::Tensor out;
  for (const auto& [matrix, x] : terms)
    out = out.defined() ? out.add_(device_product(*matrix, x)) : device_product(*matrix, x);
  if (epilogue.bias.defined()) out = out + epilogue.bias;
  return epilogue.slope == 1.0 ? out : torch::leaky_relu(out, epilogue.slope);
}

/// Inputs are the terms' x, then the bias where there is one; the matrices come along as they are.
struct CsrSum : torch::autograd::Function<CsrSum> {
  static torch::Tensor forward(AutogradContext* context, const std::vector<CsrTensor>& matrices, double slope,
                               at::TensorList inputs) {
    std::vector<CsrTermTensor> terms;
    for (size_t t = 0; t < matrices.size(); ++t) terms.emplace_back(&matrices[t], inputs[t]);
    const bool has_bias = inputs.size() > matrices.size();
    const auto out = forward_sum(terms, {has_bias ? inputs.back() : torch::Tensor(), slope});
    variable_list saved;
    for (const auto& m : matrices) {
      saved.insert(saved.end(), {m.transposed_row_ptr, m.transposed_columns, m.transposed_values});
    }
    if (slope != 1.0) saved.push_back(out);
    context->save_for_backward(saved);
    context->saved_data["slope"] = slope;
    context->saved_data["has_bias"] = has_bias;
    std::vector<int64_t> cols;
    for (const auto& m : matrices) cols.push_back(m.cols);
    context->saved_data["cols"] = cols;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto cols = context->saved_data["cols"].toIntVector();
    const double slope = context->saved_data["slope"].toDouble();
    auto gradient = gradients[0].contiguous();
    if (slope != 1.0) gradient = before_activation(gradient, saved.back(), slope);
    variable_list result = {torch::Tensor(), torch::Tensor()};  // matrices, slope
    for (size_t t = 0; t < cols.size(); ++t) {
      const CsrTensor transposed{cols[t], gradient.size(0), saved[3 * t], saved[3 * t + 1], saved[3 * t + 2], {}, {},
                                 {}};
      result.push_back(forward_sum({{&transposed, gradient}}, {}));
    }
    if (context->saved_data["has_bias"].toBool()) result.push_back(gradient.sum(0));
    return result;
  }
  static torch::Tensor before_activation(const torch::Tensor& gradient, const torch::Tensor& out, double slope) {
    if (!gradient.is_cpu()) return gradient * torch::where(out > 0, 1.0, slope).to(gradient.scalar_type());
    auto result = gradient.clone();
    AT_DISPATCH_FLOATING_TYPES(result.scalar_type(), "csr_sum_backward", [&] {
      scale_negative<scalar_t>(result.numel(), out.data_ptr<scalar_t>(), static_cast<scalar_t>(slope),
                               result.data_ptr<scalar_t>());
    });
    return result;
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
    context->save_for_backward({winner, pattern.transposed_row_ptr, pattern.transposed_columns});
    context->saved_data["cols"] = pattern.cols;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto gradient = gradients[0].contiguous();
    const int64_t cols = context->saved_data["cols"].toInt();
    auto result = torch::empty({cols, gradient.size(1)}, gradient.options());
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "csr_max_backward", [&] {
      max_rows_gradient<scalar_t>(cols, saved[1].data_ptr<int64_t>(), saved[2].data_ptr<int32_t>(),
                                  saved[0].data_ptr<int32_t>(), gradient.data_ptr<scalar_t>(), gradient.size(1),
                                  result.data_ptr<scalar_t>());
    });
    return {result, torch::Tensor()};
  }
};

}  // namespace

torch::Tensor csr_sum(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue) {
  if (terms.empty()) throw ModelError("sparse sum: no terms, expected at least one");
  std::vector<CsrTensor> matrices;
  std::vector<torch::Tensor> xs;
  for (const auto& [matrix, x] : terms) {
    matrices.push_back(*matrix);
    xs.push_back(checked(*matrix, x));
    if (matrix->rows != terms.front().first->rows || xs.back().size(1) != xs.front().size(1)) {
      throw ModelError(fmt::format("sparse sum: a term of {} rows and {} columns, expected {} and {}", matrix->rows,
                                   xs.back().size(1), terms.front().first->rows, xs.front().size(1)));
    }
  }
  if (epilogue.bias.defined()) xs.push_back(epilogue.bias);
  return CsrSum::apply(matrices, epilogue.slope, at::TensorList(xs));
}

torch::Tensor csr_matmul(const CsrTensor& matrix, const torch::Tensor& x) { return csr_sum({{&matrix, x}}); }

torch::Tensor csr_max(const CsrTensor& pattern, const torch::Tensor& x) {
  const auto states = checked(pattern, x);
  return states.is_cpu() ? CsrMaximum::apply(states, pattern) : csr_max_aten(pattern, states);
}

torch::Tensor csr_sum_aten(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue) {
  const auto& first = terms.front();
  auto out = torch::zeros({first.first->rows, first.second.size(1)}, first.second.options());
  for (const auto& [matrix, x] : terms) {
    auto messages = x.index_select(0, matrix->columns);
    if (matrix->values.defined()) messages = messages * matrix->values.unsqueeze(1);
    out = out.index_add(0, entry_rows(*matrix), messages);
  }
  if (epilogue.bias.defined()) out = out + epilogue.bias;
  return epilogue.slope == 1.0 ? out : torch::leaky_relu(out, epilogue.slope);
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
