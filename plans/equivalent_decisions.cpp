#include "plans/equivalent_decisions.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "plans/state_hash.h"

namespace foretime::plans {

std::vector<double> decision_weights(const data::LayoutCandidates& layout, int64_t candidates) {
  constexpr int64_t kMostCodes = int64_t{1} << 24;
  constexpr int16_t kUnseen = -1;
  const auto nodes = static_cast<size_t>(layout.configurable());
  const int64_t step = std::max<int64_t>(1, candidates * layout.configurable() / kMostCodes);
  // A column of codes with its codes renamed in the order in which they first come is the partition that it makes.
  struct Column {
    std::array<int16_t, 256> name;
    int16_t names = 0;
    StateHash hash;
  };
  std::vector<Column> columns(nodes);
  for (auto& column : columns) column.name.fill(kUnseen);
  for (int64_t c = 0; c < candidates; c += step) {
    const uint8_t* codes = layout.codes.data() + c * layout.configurable();
    for (size_t j = 0; j < nodes; ++j) {
      Column& column = columns[j];
      int16_t& name = column.name[codes[j]];
      if (name == kUnseen) name = column.names++;
      column.hash = mixed(column.hash, static_cast<uint64_t>(name));
    }
  }
  std::map<std::pair<uint64_t, uint64_t>, int64_t> tied;
  for (const auto& column : columns) ++tied[{column.hash.low, column.hash.high}];
  std::vector<double> weights;
  for (const auto& column : columns)
    weights.push_back(1.0 / static_cast<double>(tied.at({column.hash.low, column.hash.high})));
  return weights;
}

}  // namespace foretime::plans
