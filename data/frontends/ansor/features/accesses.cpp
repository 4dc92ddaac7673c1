#include "data/frontends/ansor/features/accesses.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/replay/index_interval.h"

namespace foretime::data {
namespace {

constexpr size_t kMostAccesses = 100000;

class Accesses {
 public:
  Accesses(LoopNest& nest, std::vector<NestAccess>& out) : nest_(nest), out_(out) {}

  /// `axes` are the values of the axes of `reader`.
  void read(size_t reader, const std::vector<IndexInterval>& axes) {
    const ComputeDag& dag = *nest_.dag;
    for (const DagRead& read : dag.stages[reader].reads) {
      if (++looked_at_ > kMostAccesses) throw DataError(fmt::format("more than {} accesses", kMostAccesses));
      std::vector<IndexInterval> indices;
      for (const int32_t index : read.indices) {
        // Interval arithmetic on points is exact; what comes out wider is no arithmetic of integers.
        IndexInterval value = index_interval(dag.expressions, index, axes, nest_.pool);
        if (!value.everything && !nest_.pool.same(value.low, value.high)) value.everything = true;
        indices.push_back(value);
      }
      const auto source = static_cast<size_t>(read.stage);
      if (nest_.stages[source].compute_at == ComputeAt::inlined) {
        this->read(source, indices);
        continue;
      }
      NestAccess access;
      access.stage = source;
      for (const IndexInterval& index : indices) {
        access.indices.push_back(index.everything ? Affine::of(0) : index.low);
        access.unknown.push_back(index.everything);
      }
      out_.push_back(std::move(access));
    }
  }

 private:
  LoopNest& nest_;
  std::vector<NestAccess>& out_;
  size_t looked_at_ = 0;
};

}  // namespace

void axis_values(LoopNest& nest, size_t stage, std::vector<Affine>& values) {
  AffinePool& pool = nest.pool;
  const NestStage& loops = nest.stages[stage];
  std::vector<Affine> of_variable(nest.variables.size(), Affine::of(0));
  const auto value = [&](int32_t id) -> Affine& { return of_variable[static_cast<size_t>(id)]; };
  const auto variable = [&](int32_t id) -> const NestVariable& { return nest.variables[static_cast<size_t>(id)]; };
  for (const NestIterator& iterator : loops.iterators) {
    const AffineBounds extent = pool.bounds(variable(iterator.variable).extent);
    value(iterator.variable) = pool.variable(iterator.variable, {0, std::max<int64_t>(extent.high - 1, 0)});
  }
  for (auto relation = loops.relations.rbegin(); relation != loops.relations.rend(); ++relation) {
    const Affine inner = variable(relation->inner).extent;
    if (relation->kind == NestRelation::Kind::fuse) {
      value(relation->outer) = pool.floor_divide(value(relation->parent), inner);
      value(relation->inner) = pool.floor_modulo(value(relation->parent), inner);
    } else {
      value(relation->parent) = pool.add(value(relation->inner), pool.multiply(value(relation->outer), inner));
    }
  }
  values.clear();
  for (const int32_t axis : loops.axes) values.push_back(pool.add(value(axis), variable(axis).minimum));
}

void stage_accesses(LoopNest& nest, size_t stage, std::vector<NestAccess>& accesses) {
  accesses.clear();
  std::vector<Affine> values;
  axis_values(nest, stage, values);
  const size_t rank = nest.dag->stages[stage].axes.size();
  NestAccess written;
  written.stage = stage;
  written.indices.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank));
  written.unknown.assign(rank, 0);
  accesses.push_back(std::move(written));
  std::vector<IndexInterval> axes;
  axes.reserve(values.size());
  for (const Affine& value : values) axes.push_back({value, value});
  Accesses(nest, accesses).read(stage, axes);
}

}  // namespace foretime::data
