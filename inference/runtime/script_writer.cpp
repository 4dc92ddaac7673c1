#include "inference/runtime/script_writer.h"

#include <fmt/format.h>

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

std::string ScriptWriter::weight(const WeightRef& weight) {
  for (const auto& [attribute, name] : attributes_) {
    if (name == weight.name) return "self." + attribute;
  }
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
