#include <utility>

#include <fmt/format.h>

#include "inference/kernels/dense_kernels.h"
#include "inference/ops/operation.h"
#include "inference/runtime/products.h"

namespace foretime::inference {

int64_t CsrDense::columns(const Widths& widths) const {
  widths.expect(!weights.empty() && weights.size() == matrices.size(), "matrices", matrices.size(), weights.size());
  const int64_t width = widths.of(x), outputs = widths.table(weights[0]).first;
  for (const auto& weight : weights) {
    const auto [rows, columns] = widths.table(weight);
    widths.expect(rows == outputs, "rows of a weight", rows, outputs);
    widths.expect(columns == width, "columns of a weight", columns, width);
  }
  for (const auto& matrix : matrices) widths.matrix(matrix);
  widths.optional_vector(bias, outputs);
  return outputs;
}

Matrix CsrDense::run(const Run& run) const {
  const Matrix& from = run.in(x);
  std::vector<Matrix> products;
  std::vector<SumTerm> terms;
  products.reserve(weights.size());
  for (size_t t = 0; t < weights.size(); ++t) {
    const Weight& w = run.table(weights[t]);
    products.push_back(run.made(from.rows, w.shape[0]));
    dense_product(from, w.values.data(), w.shape[1], nullptr, 1.0F, products.back());
    terms.push_back({&run.matrix(matrices[t]), &products.back()});
  }
  auto y = sum_of_products(run, terms, run.vector(bias), slope);
  for (auto& product : products) run.give(std::move(product.values));
  return y;
}

std::string CsrDense::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  std::string text;
  for (size_t t = 0; t < weights.size(); ++t)
    text += fmt::format("{}self.product(m, {}, {}.matmul({}.t()))", t == 0 ? "" : " + ", writer.matrix(matrices[t]),
                        writer.value(x), writer.weight(weights[t]));
  if (bias.defined()) text += " + " + writer.weight(bias);
  return writer.activated("(" + text + ")", slope);
}

}  // namespace foretime::inference
