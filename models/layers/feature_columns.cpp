#include "models/layers/feature_columns.h"

#include <numeric>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/graphs/schema.h"
#include "models/graph/error.h"

namespace foretime::models {

std::vector<int64_t> chosen_columns(const std::vector<std::string>& names, data::CandidateKind kind,
                                    int64_t feature_count) {
  if (names.empty()) {
    std::vector<int64_t> all(static_cast<size_t>(feature_count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const bool loops = kind == data::CandidateKind::program && feature_count == data::LoopColumns::count;
  const auto known = loops ? data::loop_column_names() : data::feature_names(kind);
  if (static_cast<int64_t>(known.size()) != feature_count) {
    throw ModelError(fmt::format(
        "model.features.columns: the data have {} columns of node features, expected the {} that have names; leave the "
        "list empty",
        feature_count, known.size()));
  }
  std::set<int64_t> chosen;
  for (const std::string& name : names) {
    const bool begins = name.ends_with('*');
    const auto beginning = std::string_view(name).substr(0, name.size() - (begins ? 1 : 0));
    bool found = false;
    for (size_t column = 0; column < known.size(); ++column) {
      if (begins ? !known[column].starts_with(beginning) : known[column] != name) continue;
      chosen.insert(static_cast<int64_t>(column));
      found = true;
    }
    if (found) continue;
    const auto near = nearest_name(name, known);
    throw ModelError(fmt::format(
        "model.features.columns: '{}' is no column of node features{}", name,
        near.empty() ? fmt::format(", expected {}", fmt::join(known, ", ")) : fmt::format("; is it {}?", near)));
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace foretime::models
