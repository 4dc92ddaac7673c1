#include <fmt/format.h>

#include "inference/ops/operation.h"
#include "inference/runtime/products.h"

namespace foretime::inference {

int64_t CsrSum::columns(const Widths& widths) const {
  widths.expect(!inputs.empty() && inputs.size() == matrices.size(), "matrices", matrices.size(), inputs.size());
  const int64_t width = widths.of(inputs[0]);
  for (const Value input : inputs)
    widths.expect(widths.of(input) == width, "columns of an input", widths.of(input), width);
  for (const auto& matrix : matrices) widths.matrix(matrix);
  widths.optional_vector(bias, width);
  return width;
}

Matrix CsrSum::run(const Run& run) const {
  std::vector<SumTerm> terms;
  for (size_t t = 0; t < inputs.size(); ++t) {
    const Matrix& x = run.in(inputs[t]);
    const bool identity = matrices[t].kind == MatrixRef::Kind::identity;
    terms.push_back({identity ? nullptr : &run.matrix(matrices[t]), &x});
  }
  return sum_of_products(run, terms, run.vector(bias), slope);
}

std::string CsrSum::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  std::string text;
  for (size_t t = 0; t < inputs.size(); ++t) {
    const auto x = writer.value(inputs[t]);
    const bool identity = matrices[t].kind == MatrixRef::Kind::identity;
    text +=
        (t == 0 ? "" : " + ") + (identity ? x : fmt::format("self.product(m, {}, {})", writer.matrix(matrices[t]), x));
  }
  if (bias.defined()) text += " + " + writer.weight(bias);
  return writer.activated("(" + text + ")", slope);
}

}  // namespace foretime::inference
