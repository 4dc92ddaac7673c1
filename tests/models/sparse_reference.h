#pragma once

#include <vector>

#include "models/sparse/sparse_ops.h"

/// The operations of models/sparse/sparse_ops.h, from ATen's operations alone, on any device.
namespace foretime::models {

inline torch::Tensor csr_sum_aten(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue) {
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

inline torch::Tensor csr_max_aten(const CsrTensor& pattern, const torch::Tensor& x) {
  const int64_t entries = pattern.columns.size(0), width = x.size(1);
  const auto messages = x.index_select(0, pattern.columns);
  const auto rows = entry_rows(pattern).to(torch::kLong).unsqueeze(1).expand({entries, width});
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

inline torch::Tensor edge_softmax_aten(const CsrTensor& matrix, const torch::Tensor& logits) {
  const auto rows = entry_rows(matrix).to(torch::kLong);
  const auto index = rows.unsqueeze(1).expand_as(logits);
  const auto largest = torch::zeros({matrix.rows, logits.size(1)}, logits.options())
                           .scatter_reduce(0, index, logits.detach(), "amax", /*include_self=*/false);
  auto weights = torch::exp(logits - largest.gather(0, index));
  if (matrix.values.defined()) weights = weights * matrix.values.unsqueeze(1);
  const auto sums = torch::zeros({matrix.rows, logits.size(1)}, logits.options()).index_add(0, rows, weights);
  return weights / torch::where(sums == 0, torch::ones_like(sums), sums).gather(0, index);
}

inline torch::Tensor weighted_sum_aten(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x) {
  const int64_t heads = weights.size(1);
  const auto messages = x.index_select(0, matrix.columns).view({-1, heads, x.size(1) / heads}) * weights.unsqueeze(2);
  return torch::zeros({matrix.rows, x.size(1)}, x.options())
      .index_add(0, entry_rows(matrix), messages.view({-1, x.size(1)}));
}

inline torch::Tensor entry_products_aten(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b,
                                         int64_t heads) {
  const auto products = a.index_select(0, entry_rows(matrix)) * b.index_select(0, matrix.columns);
  return products.view({-1, heads, a.size(1) / heads}).sum(2);
}

}  // namespace foretime::models
