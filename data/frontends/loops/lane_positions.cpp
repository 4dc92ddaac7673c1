#include <algorithm>
#include <array>
#include <functional>

#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/loops/nest_program.h"

namespace foretime::data {
namespace {

constexpr int64_t kFarthestPosition = int64_t{1} << 50;  // past it, hostile input

}  // namespace

ThreadAxis thread_axis(Annotation annotation) {
  switch (annotation) {
    case Annotation::vthread: return ThreadAxis::virtual_thread;
    case Annotation::block_x:
    case Annotation::block_y:
    case Annotation::block_z: return ThreadAxis::block;
    case Annotation::thread_x:
    case Annotation::thread_y:
    case Annotation::thread_z: return ThreadAxis::thread;
    default: return ThreadAxis::none;
  }
}

size_t thread_dimension(Annotation annotation) {
  if (annotation == Annotation::block_y || annotation == Annotation::thread_y) return 1;
  return annotation == Annotation::block_z || annotation == Annotation::thread_z ? 2 : 0;
}

void lane_positions(const LoopNest& nest, const Affine& index, const ProgramKernel& kernel, std::span<int64_t> lanes) {
  lanes = lanes.first(std::min<size_t>(lanes.size(), kernel.block_threads()));
  const auto bound = [&](int32_t variable) { return nest.variables[variable].thread; };
  std::array<int64_t, 3> thread = {0, 0, 0};
  bool depends = false;
  const std::function<int64_t(int32_t)> value_of = [&](int32_t variable) {
    if (thread_axis(bound(variable)) != ThreadAxis::thread) return int64_t{0};
    depends = true;
    return thread[thread_dimension(bound(variable))];
  };
  const auto each_lane = [&](const auto& add) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const int64_t place = lane;
      thread = {place % kernel.threads[0], place / kernel.threads[0] % kernel.threads[1],
                place / (kernel.threads[0] * kernel.threads[1])};
      lanes[lane] = checked_add(lanes[lane], add());
    }
  };
  // Terms of a thread's variable have a stride; of the others, only those that threads change are evaluated for each.
  std::ranges::fill(lanes, index.base);
  std::array<int64_t, 3> strides = {0, 0, 0};
  int64_t constant = 0;
  for (const AffineTerm& term : nest.pool.terms(index)) {
    const AffineAtom& atom = nest.pool.atom(term.atom);
    if (atom.kind == AtomKind::variable) {
      if (thread_axis(bound(atom.variable)) != ThreadAxis::thread) continue;
      int64_t& stride = strides[thread_dimension(bound(atom.variable))];
      stride = checked_add(stride, term.coefficient);
      continue;
    }
    thread = {0, 0, 0};
    depends = false;
    const auto value = [&] { return checked_multiply(term.coefficient, nest.pool.evaluate(atom.self, value_of)); };
    const int64_t first = value();
    if (depends) each_lane(value);
    else constant = checked_add(constant, first);
  }
  each_lane([&] {
    int64_t sum = constant;
    for (size_t d = 0; d < thread.size(); ++d) sum = checked_add(sum, checked_multiply(strides[d], thread[d]));
    return sum;
  });
  for (int64_t& position : lanes) position = std::clamp(position, -kFarthestPosition, kFarthestPosition);
}

}  // namespace foretime::data
