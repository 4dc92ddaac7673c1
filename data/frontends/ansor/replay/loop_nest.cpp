#include "data/frontends/ansor/replay/loop_nest.h"

#include <algorithm>

namespace foretime::data {
namespace {

// Names double with every split that is fused again: hostile schedules make them endless.
constexpr size_t kLongestName = 4096;
constexpr int kDeepestNest = 400;

/// Stages that a cache step or rfactor replaced are gone, their variables still there.
std::string axis_name(const LoopNest& nest, int32_t serial, int32_t position) {
  const size_t stage = nest.stage_of(serial);
  return stage < nest.stages.size() ? nest.dag->stages[stage].axis(position).name : "replaced";
}

void append_loop_name(const LoopNest& nest, int32_t id, int depth, std::string& out) {
  using Origin = NestVariable::Origin;
  if (out.size() > kLongestName || depth > kDeepestNest) return;
  const NestVariable& variable = nest.variables[id];
  switch (variable.origin) {
    case Origin::axis: out += axis_name(nest, variable.serial, variable.first); break;
    case Origin::split_outer:
    case Origin::split_inner:
      append_loop_name(nest, variable.first, depth + 1, out);
      out += variable.origin == Origin::split_outer ? ".outer" : ".inner";
      break;
    case Origin::fused:
      append_loop_name(nest, variable.first, depth + 1, out);
      out += '.';
      append_loop_name(nest, variable.second, depth + 1, out);
      out += ".fused";
      break;
    case Origin::single: out += "singleton"; break;
  }
}

}  // namespace

size_t LoopNest::stage_of(int32_t serial) const {
  const auto found = std::ranges::find_if(stages, [&](const NestStage& stage) { return stage.serial == serial; });
  return found - stages.begin();
}

std::string loop_name(const LoopNest& nest, int32_t variable) {
  const Annotation thread = nest.variables[variable].thread;
  if (thread != Annotation::none) return annotation_name(thread);
  std::string name;
  append_loop_name(nest, variable, 0, name);
  return name;
}

}  // namespace foretime::data
