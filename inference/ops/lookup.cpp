#include <algorithm>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Lookup::columns(const Widths& widths) const {
  widths.matrix(matrix);
  return widths.table(table).second;
}

Matrix Lookup::run(const Run& run) const {
  const auto& chosen = run.matrix(matrix);
  const Weight& rows = run.table(table);
  if (chosen.kind != SparseMatrix::Kind::gather) run.fail("a matrix that is no lookup");
  auto y = run.made(chosen.rows, rows.shape[1]);
  for (int64_t r = 0; r < chosen.rows; ++r) {
    const int32_t at = chosen.column_of[r];
    if (at < 0 || at >= rows.shape[0]) run.fail(fmt::format("row {} of a table of {}", at, rows.shape[0]));
    const float* row = rows.values.data() + at * rows.shape[1];
    std::copy(row, row + y.columns, y.row(r));
  }
  return y;
}

std::string Lookup::script(ScriptWriter& writer) const {
  return fmt::format("{}.index_select(0, m[\"{}.columns\"])", writer.weight(table), to_string(matrix));
}

}  // namespace foretime::inference
