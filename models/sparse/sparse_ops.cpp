#include "models/sparse/sparse_ops.h"

#include "inference/kernels/sparse_kernels.h"
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
    throw ModelError("sparse product: states have {} rows, expected {}", x.dim() > 0 ? x.size(0) : 0, matrix.cols);
  }
  const auto wanted = matrix.values.defined() ? matrix.values.scalar_type() : torch::kFloat;
  if (is_reduced(x.scalar_type())) return x.to(wanted);
  if (matrix.values.defined() && x.scalar_type() != wanted) {
    throw ModelError("sparse product: states are {}, the matrix is {}", c10::toString(x.scalar_type()),
                     c10::toString(wanted));
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
  if (!condition) throw ModelError("sparse matrix: {}: {}, expected {}", what, found, expected);
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

torch::Tensor csr_sum(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue) {
  if (terms.empty()) throw ModelError("sparse sum: no terms, expected at least one");
  std::vector<CsrTensor> matrices;
  std::vector<torch::Tensor> xs;
  for (const auto& [matrix, x] : terms) {
    matrices.push_back(*matrix);
    xs.push_back(checked(*matrix, x));
    if (matrix->rows != terms.front().first->rows || xs.back().size(1) != xs.front().size(1)) {
      throw ModelError("sparse sum: a term of {} rows and {} columns, expected {} and {}", matrix->rows,
                       xs.back().size(1), terms.front().first->rows, xs.front().size(1));
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
