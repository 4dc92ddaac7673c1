#include "inference/runtime/context.h"

#include <fmt/ranges.h>

namespace foretime::inference {
namespace {

constexpr const char* kLeaky = R"(
def leaky(self, x: Tensor, slope: float) -> Tensor:
    return torch.where(x < 0, x * slope, x)

)";

constexpr const char* kSparse = R"(
def rows_of(self, m: Dict[str, Tensor], name: str) -> Tensor:
    row_ptr = m[name + ".row_ptr"]
    rows = row_ptr.size(0) - 1
    return torch.repeat_interleave(torch.arange(rows, device=row_ptr.device), row_ptr[1:] - row_ptr[:rows])


def product(self, m: Dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    rows = m[name + ".row_ptr"].size(0) - 1
    messages = x.index_select(0, m[name + ".columns"]) * m[name + ".values"].unsqueeze(1)
    return torch.zeros([rows, x.size(1)], dtype=x.dtype, device=x.device).index_add(0, self.rows_of(m, name), messages)


def maxima(self, m: Dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    rows = m[name + ".row_ptr"].size(0) - 1
    messages = x.index_select(0, m[name + ".columns"])
    index = self.rows_of(m, name).unsqueeze(1).expand_as(messages)
    zeros = torch.zeros([rows, x.size(1)], dtype=x.dtype, device=x.device)
    return zeros.scatter_reduce(0, index, messages, "amax", include_self=False)

)";

}  // namespace

WeightShapes shapes_of(const Weights& weights) {
  WeightShapes shapes;
  for (const auto& [name, weight] : weights) shapes[name] = weight.shape;
  return shapes;
}

void Widths::provide(Value input, int64_t columns) { inputs_[input.id] = columns; }

void Widths::add(int64_t columns) {
  expect(columns >= 1 && columns <= kWidest, "columns", columns, fmt::format("1 to {}", kWidest));
  columns_.push_back(columns);
}

int64_t Widths::of(Value value) const {
  if (value.id < 0) fail("found no input, expected a value");
  const size_t node = value.id - (value.id < kInputs ? 0 : kInputs);
  if (value.id < kInputs ? inputs_[value.id] < 0 : node >= columns_.size())
    fail(fmt::format("input '{}': no earlier operation computes it", to_string(value)));
  return value.id < kInputs ? inputs_[value.id] : columns_[node];
}

const std::vector<int64_t>& Widths::shape(const WeightRef& weight) const {
  const auto found = weights_.find(weight.name);
  if (found == weights_.end()) fail(fmt::format("weight '{}': not in the bundle", weight.name));
  return found->second;
}

std::pair<int64_t, int64_t> Widths::table(const WeightRef& weight) const {
  const auto& found = shape(weight);
  if (found.size() != 2) fail(fmt::format("weight '{}': {} dimensions, expected 2", weight.name, found.size()));
  return {found[0], found[1]};
}

void Widths::vector(const WeightRef& weight, int64_t length) const {
  const auto& found = shape(weight);
  if (found != std::vector{length})
    fail(fmt::format("weight '{}': shape [{}], expected [{}]", weight.name, fmt::join(found, ", "), length));
}

int64_t Widths::length(const WeightRef& weight) const {
  const auto& found = shape(weight);
  if (found.size() != 1) fail(fmt::format("weight '{}': {} dimensions, expected 1", weight.name, found.size()));
  return found[0];
}

void Widths::matrix(const MatrixRef& matrix) const {
  if (groups_ && matrix.kind != MatrixRef::Kind::identity) fail("found a sparse matrix, which only embed may read");
  if (matrix.kind >= MatrixRef::Kind::adjacency && matrix.at >= 0) of({matrix.at});
}

void Widths::fail(const std::string& what) const {
  throw BundleError("graph: {} operation {} ({}): {}", list_, columns_.size(), operation_, what);
}

void Run::fail(const std::string& what) const {
  throw BundleError("graph: operation {} ({}): {}", to_string(result_), operation_, what);
}

void Run::expect_rows(int64_t found, int64_t expected) const {
  if (found != expected) fail(fmt::format("{} rows, expected {}", found, expected));
}

const SparseMatrix& Run::matrix(const MatrixRef& name, int64_t columns) const {
  const auto& found = matrices_->matrix(name);
  if (found.columns != columns) fail(fmt::format("{} rows of an input, expected {}", columns, found.columns));
  return found;
}

std::string ScriptWriter::weight(const WeightRef& weight) {
  for (const auto& [attribute, name] : attributes_)
    if (name == weight.name) return "self." + attribute;
  auto attribute = fmt::format("weight_{}", attributes_.size());
  attributes_.emplace(attribute, weight.name);
  return "self." + attribute;
}

std::string ScriptWriter::number(double value) {
  auto text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string ScriptWriter::activated(const std::string& text, double slope) {
  if (slope == 1.0) return text;
  helper(kLeaky);
  return fmt::format("self.leaky({}, {})", text, number(slope));
}

void ScriptWriter::sparse_helpers() { helper(kSparse); }

std::string ScriptWriter::helpers() const {
  std::string text;
  for (const auto& methods : helpers_) text += methods;
  return text;
}

}  // namespace foretime::inference
