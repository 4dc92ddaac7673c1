#include "models/layers/readout.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace foretime::models {
namespace {

using Over = MatrixRef::Kind;

}  // namespace

Readout::Readout(const std::vector<configs::ReadoutPart>& parts, data::CandidateKind kind) {
  using P = configs::ReadoutPart;
  static constexpr std::pair<P, Part> kParts[] = {
      {P::mean, {Pooling::mean, Over::nodes}},
      {P::sum, {Pooling::sum, Over::nodes}},
      {P::max, {Pooling::max, Over::nodes}},
      {P::normalized_sum, {Pooling::normalized_sum, Over::nodes}},
      {P::configurable_mean, {Pooling::mean, Over::configurable}},
      {P::configurable_sum, {Pooling::sum, Over::configurable}},
      {P::configurable_max, {Pooling::max, Over::configurable}},
      {P::configurable_normalized_sum, {Pooling::normalized_sum, Over::configurable}},
      {P::decision_mean, {Pooling::mean, Over::tied}},
      {P::decision_sum, {Pooling::sum, Over::tied}},
      {P::decision_normalized_sum, {Pooling::normalized_sum, Over::tied}},
  };
  if (parts.empty()) throw ModelError("model.readout: empty, expected at least one part");
  for (const P part : parts) {
    if (std::ranges::count(parts, part) > 1)
      throw ModelError(fmt::format("model.readout: '{}' stands there twice", word_of(part)));
    parts_.push_back(std::ranges::find(kParts, part, &std::pair<P, Part>::first)->second);
    if (parts_.back().over != Over::nodes && kind != data::CandidateKind::layout)
      throw ModelError(
          fmt::format("model.readout: '{}' needs configurable nodes, which only layout data have", word_of(part)));
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
