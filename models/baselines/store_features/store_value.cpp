#include "models/baselines/store_features/store_value.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "models/baselines/store_features/store_walk.h"

namespace foretime::models {

void StoreValues::find(data::LoopNest& nest, const data::NestStatements& statements, const data::NestNode& store,
                       StoreValue& value) {
  const size_t stage = store.stage, output = store.output;
  const data::DagStage& defined = nest.dag->stages[stage];
  const bool tuple = store.update && !defined.combine.empty();
  value.operations = {};
  value.buffers.clear();
  value.forms.clear();
  loads_.clear();
  load_forms_.clear();
  StoreWalk walk{.nest = nest, .forms = *forms_, .count = value.operations, .loads = loads_, .load_forms = load_forms_};
  std::vector<KnownValue> axes;
  for (size_t i = 0; i < defined.axis_count(); ++i) {
    axes.push_back(KnownValue::of(statements.axis_values[store.axes + i]));
    axes.back().subtracted = nest.variables[nest.stages[stage].axes[i]].subtracted;
  }
  walk.add_load(nest.dag->memory(stage, output), std::span(axes).first(defined.axes.size()));
  if (!store.initial) {
    if (store.update && !tuple)
      for (size_t i = 0; i < defined.axes.size(); ++i) forms_->count(load_forms_[i], value.operations.integer);
    const bool symbolic =
        std::ranges::any_of(defined.reduce_axes, [](const data::DagAxis& axis) { return axis.symbolic >= 0; });
    nest.pool.keep_divisors(symbolic);
    const KnownValue result = tuple ? walk.combined(stage, output, axes) : walk.body(stage, output, axes);
    nest.pool.keep_divisors(false);
    walk.count_integer(result);
    if (store.update && !tuple) {
      const bool integer = result.type == KnownValue::Type::integer;
      if (defined.combiner == "sum")
        ++(integer ? value.operations.integer.add_subtract : value.operations.float_add_subtract);
      else if (defined.combiner == "max" || defined.combiner == "min")
        ++(integer ? value.operations.integer.compare : value.operations.float_compare);
      else
        throw DataError("stage {} ({}): combiner {}, expected sum, max or min", stage, defined.name, defined.combiner);
    }
  }
  // Accesses of one memory stand together; what is read and written is an update, whose indices are the same.
  for (size_t i = 0; i < loads_.size(); ++i) {
    const StoreLoad& load = loads_[i];
    const bool known =
        std::ranges::any_of(value.buffers, [&](const BufferAccess& buffer) { return buffer.memory == load.memory; });
    if (known) continue;
    BufferAccess buffer{.memory = load.memory, .read = i > 0 || store.update, .written = i == 0};
    buffer.rank = nest.dag->stages[nest.dag->stage_of(load.memory)].shape.size();
    buffer.first = value.forms.size();
    for (size_t j = i; j < loads_.size(); ++j) {
      if (loads_[j].memory != load.memory) continue;
      if (buffer.written && j > i) {
        buffer.read = true;
        continue;
      }
      const auto begin = load_forms_.begin() + loads_[j].first;
      value.forms.insert(value.forms.end(), begin, begin + buffer.rank);
      ++buffer.count;
    }
    value.buffers.push_back(buffer);
  }
}

}  // namespace foretime::models
