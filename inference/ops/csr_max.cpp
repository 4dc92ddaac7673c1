#include <fmt/format.h>

#include "inference/ops/operation.h"
#include "inference/runtime/products.h"

namespace foretime::inference {

int64_t CsrMax::columns(const Widths& widths) const {
  widths.matrix(matrix);
  return widths.of(x);
}

Matrix CsrMax::run(const Run& run) const { return maximum_of_rows(run, run.matrix(matrix), run.in(x)); }

std::string CsrMax::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  return fmt::format("self.maxima(m, {}, {})", writer.matrix(matrix), writer.value(x));
}

}  // namespace foretime::inference
