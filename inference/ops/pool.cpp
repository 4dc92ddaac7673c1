#include <utility>

#include <fmt/format.h>

#include "inference/ops/operation.h"
#include "inference/runtime/products.h"

namespace foretime::inference {
namespace {

constexpr const char* kPooled = R"(
def pooled(self, m: Dict[str, Tensor], name: str, x: Tensor, mode: str) -> Tensor:
    if name + ".row_ptr" in m:
        return self.maxima(m, name, x) if mode == "max" else self.product(m, name, x)
    stage = 0
    while name + "." + str(stage) + ".row_ptr" in m:
        stage_name = name + "." + str(stage)
        x = self.maxima(m, stage_name, x) if mode == "max" else self.product(m, stage_name, x)
        stage += 1
    return x
)";

}  // namespace

int64_t PoolStates::columns(const Widths& widths) const {
  widths.matrix(matrix);
  return widths.of(x);
}

Matrix PoolStates::run(const Run& run) const {
  const Pool& pool = run.pool(matrix);
  const Matrix* from = &run.in(x);
  Matrix y;
  for (const SparseMatrix* stage : pool.stages) {
    run.expect_rows(from->rows, stage->columns);
    auto next =
        mode == Mode::max ? maximum_of_rows(run, *stage, *from) : sum_of_products(run, {{stage, from}}, nullptr, 1.0F);
    run.give(std::move(y.values));
    y = std::move(next);
    from = &y;
  }
  return y;
}

std::string PoolStates::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  writer.helper(kPooled);
  return fmt::format("self.pooled(m, {}, {}, \"{}\")", writer.matrix(matrix), writer.value(x), configs::word_of(mode));
}

}  // namespace foretime::inference
