#include "inference/runtime/references.h"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/index_range.h"
#include "base/numbers.h"

namespace foretime::inference {
namespace {

using RefKind = MatrixRef::Kind;

/// Names around the numbers `at` and `relation`.
struct Pattern {
  RefKind kind;
  std::string_view before, after;
  int numbers;
};
constexpr std::array kPatterns = {
    Pattern{RefKind::identity, "", "", 0},
    Pattern{RefKind::node_types, "node_types", "", 0},
    Pattern{RefKind::collections, "collections", "", 0},
    Pattern{RefKind::level_node, "level.", ".node", 1},
    Pattern{RefKind::level_layout_row, "level.", ".layout_row", 1},
    Pattern{RefKind::level_candidate, "level.", ".candidate", 1},
    Pattern{RefKind::relation, "layer.", ".relation.", 2},
    Pattern{RefKind::self, "layer.", ".self", 1},
    Pattern{RefKind::nodes, "nodes", "", 0},
    Pattern{RefKind::configurable, "configurable", "", 0},
    Pattern{RefKind::tied, "tied", "", 0},
    Pattern{RefKind::candidate_of, "candidate_of", "", 0},
    Pattern{RefKind::statements, "statements", "", 0},
    Pattern{RefKind::loops, "loops", "", 0},
    Pattern{RefKind::loops_of, "loops_of", "", 0},
    Pattern{RefKind::innermost, "innermost", "", 0},
    Pattern{RefKind::second, "second", "", 0},
    Pattern{RefKind::access, "access.", "", 1},
    Pattern{RefKind::statements_of, "statements_of", "", 0},
    Pattern{RefKind::program_of, "program_of", "", 0},
    Pattern{RefKind::adjacency, "v", ".adjacency", 1},
    Pattern{RefKind::normalized_adjacency, "v", ".normalized_adjacency", 1},
    Pattern{RefKind::kept_nodes, "v", ".kept_nodes", 1},
};
constexpr const char* kOfThePlan[] = {"adjacency", "normalized_adjacency", "kept_nodes"};

bool is_of_graphs(RefKind kind) { return kind >= RefKind::adjacency; }

bool take(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

std::optional<int32_t> take_index(std::string_view& text) {
  const auto value = take_number<int32_t>(text);
  return value && *value >= 0 && *value <= (1 << 24) ? value : std::nullopt;
}

}  // namespace

std::string to_string(Value value) {
  if (!value.defined()) return {};
  return value.id < kInputs ? kInputNames[value.id] : fmt::format("v{}", value.id - kInputs);
}

std::string to_string(const MatrixRef& matrix) {
  const auto kind = index_of(matrix.kind);
  if (is_of_graphs(matrix.kind)) {
    if (matrix.at < 0) return kOfThePlan[kind - index_of(RefKind::adjacency)];
    return fmt::format("{}{}", to_string(Value{matrix.at}), kPatterns[kind].after);
  }
  const Pattern& pattern = kPatterns[kind];
  if (pattern.numbers == 0) return std::string(pattern.before);
  if (pattern.numbers == 2) return fmt::format("{}{}{}{}", pattern.before, matrix.at, pattern.after, matrix.relation);
  return fmt::format("{}{}{}", pattern.before, matrix.at, pattern.after);
}

Value parse_value(std::string_view name) {
  for (int32_t i = 0; i < kInputs; ++i)
    if (name == kInputNames[i]) return {i};
  auto rest = name;
  if (take(rest, "v")) {
    const auto number = take_index(rest);
    if (number && rest.empty()) return {*number + kInputs};
  }
  throw BundleError("graph: value '{:.60}', expected an input or v0, v1, …", name);
}

MatrixRef parse_matrix(std::string_view name) {
  for (const auto& [kind, before, after, numbers] : kPatterns) {
    auto rest = name;
    MatrixRef matrix{.kind = kind};
    if (is_of_graphs(kind) && name == kOfThePlan[index_of(kind) - index_of(RefKind::adjacency)]) {
      matrix.at = -1;
      return matrix;
    }
    if (!take(rest, before)) continue;
    if (numbers > 0) {
      const auto number = take_index(rest);
      if (!number || !take(rest, after)) continue;
      matrix.at = is_of_graphs(kind) ? *number + kInputs : *number;
    }
    if (numbers > 1) {
      const auto number = take_index(rest);
      if (!number) continue;
      matrix.relation = *number;
    }
    if (rest.empty()) return matrix;
  }
  throw BundleError("graph: matrix '{:.60}': no such matrix", name);
}

}  // namespace foretime::inference
