#include "inference/runtime/run.h"

#include <fmt/format.h>

#include "inference/error.h"

namespace foretime::inference {

void Run::fail(const std::string& what) const {
  throw BundleError(fmt::format("graph: operation {} ({}): {}", to_string(result_), operation_, what));
}

void Run::expect_rows(int64_t found, int64_t expected) const {
  if (found != expected) fail(fmt::format("{} rows, expected {}", found, expected));
}

const SparseMatrix& Run::matrix(const MatrixRef& name, int64_t columns) const {
  const auto& found = matrices_->matrix(name);
  if (found.columns != columns) fail(fmt::format("{} rows of an input, expected {}", columns, found.columns));
  return found;
}

}  // namespace foretime::inference
