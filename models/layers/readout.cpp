#include "models/layers/readout.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace foretime::models {
namespace {

using Over = MatrixRef::Kind;

constexpr std::pair<std::string_view, Over> kPrefixes[] = {{"configurable_", Over::configurable},
                                                           {"tied_", Over::tied}};

}  // namespace

Readout::Readout(const std::vector<std::string>& parts, data::CandidateKind kind) {
  if (parts.empty()) throw ModelError("model.readout: empty, expected at least one part");
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string_view name = parts[i];
    if (std::count(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), name) > 0)
      throw ModelError(fmt::format("model.readout: '{}' stands there twice", name));
    Part part{Pooling::sum, Over::nodes};
    for (const auto& [prefix, over] : kPrefixes) {
      if (!name.starts_with(prefix)) continue;
      part.over = over;
      name.remove_prefix(prefix.size());
      break;
    }
    if (name == "mean") {
      part.pooling = Pooling::mean;
    } else if (name == "sum") {
      part.pooling = Pooling::sum;
    } else if (name == "max" && part.over != Over::tied) {
      part.pooling = Pooling::max;
    } else if (name == "normalized_sum") {
      part.pooling = Pooling::normalized_sum;
    } else {
      throw ModelError(fmt::format(
          "model.readout: '{}', expected mean, sum, max or normalized_sum, or one of these after configurable_, or one "
          "of these but max after tied_",
          parts[i]));
    }
    if (part.over != Over::nodes && kind != data::CandidateKind::layout)
      throw ModelError(
          fmt::format("model.readout: '{}' needs configurable nodes, which only layout data have", parts[i]));
    parts_.push_back(part);
  }
}

bool Readout::needs_tied() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.over == Over::tied; });
}

Value Readout::operator()(GraphBuilder& builder, Value states, std::vector<PooledStates>& pools,
                          const MatrixRef& nodes) const {
  std::vector<Value> columns(parts_.size());
  for (const Over over : {Over::nodes, Over::configurable, Over::tied}) {
    PooledStates pooled{over == Over::nodes ? nodes : MatrixRef{over}, {}, {}};
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].over != over) continue;
      const bool maximum = parts_[i].pooling == Pooling::max;
      Value& value = maximum ? pooled.maximum : pooled.sum;
      if (!value.defined())
        value = builder.pool(states, pooled.pool,
                             maximum ? inference::PoolStates::Mode::max : inference::PoolStates::Mode::sum);
      columns[i] = value;
      if (parts_[i].pooling == Pooling::mean) columns[i] = builder.pool_mean(value, pooled.pool);
      if (parts_[i].pooling == Pooling::normalized_sum) columns[i] = builder.l2_normalized(value);
    }
    if (pooled.sum.defined() || pooled.maximum.defined()) pools.push_back(pooled);
  }
  return builder.join(columns);
}

}  // namespace foretime::models
