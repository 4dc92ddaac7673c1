#include "data/frontends/ansor/replay/loop_nest.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::data {
namespace {

// Names double with every split that is fused again: hostile schedules make them endless.
constexpr size_t kLongestName = 4096;
constexpr int kDeepestNest = 400;

/// TVM's state shortens the names of axes: `i.outer` to `i_o`.
std::string cleaned(std::string name) {
  std::ranges::replace(name, '.', '_');
  std::ranges::replace(name, '@', '_');
  for (const std::string_view word : {"outer", "inner"}) {
    size_t at = 0;
    while ((at = name.find(word, at)) != std::string::npos) name.replace(at++, word.size(), 1, word[0]);
  }
  return name;
}

/// Stages that a cache step or rfactor replaced are gone, their variables still there.
std::string axis_name(const LoopNest& nest, int32_t serial, int32_t position) {
  const size_t stage = nest.stage_of(serial);
  return stage < nest.stages.size() ? nest.dag->stages[stage].axis(static_cast<size_t>(position)).name : "replaced";
}

void append_name(const LoopNest& nest, int32_t id, int depth, std::string& out) {
  if (out.size() > kLongestName || depth > kDeepestNest) return;
  const NestName& name = nest.names[static_cast<size_t>(id)];
  switch (name.origin) {
    case NestName::Origin::axis:
      out += cleaned(axis_name(nest, name.serial, name.of));
      break;
    case NestName::Origin::part:
      append_name(nest, name.of, depth + 1, out);
      out += fmt::format(".{}", name.part);
      break;
    case NestName::Origin::fused:
      for (uint32_t i = 0; i < name.size; ++i) {
        append_name(nest, nest.fused_names[name.begin + i], depth + 1, out);
        out += '@';
      }
      break;
    case NestName::Origin::single:
      break;
  }
}

void append_loop_name(const LoopNest& nest, int32_t id, int depth, std::string& out) {
  using Origin = NestVariable::Origin;
  if (out.size() > kLongestName || depth > kDeepestNest) return;
  const NestVariable& variable = nest.variables[static_cast<size_t>(id)];
  switch (variable.origin) {
    case Origin::axis:
      out += axis_name(nest, variable.serial, variable.first);
      break;
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
    case Origin::single:
      out += "singleton";
      break;
  }
}

class NestPrinter {
 public:
  explicit NestPrinter(const LoopNest& nest) : nest_(nest) {}

  std::string print() {
    std::vector<std::string> inputs;
    for (const DagStage& stage : nest_.dag->stages) {
      if (stage.input) inputs.push_back(stage.name);
    }
    out_ = fmt::format("{}: {}\n",
                       "Place"
                       "holder",
                       fmt::join(inputs, ", "));
    for (size_t i = 0; i < nest_.stages.size(); ++i) {
      if (!nest_.dag->stages[i].input && nest_.stages[i].compute_at == ComputeAt::root) stage(i, 0);
    }
    return std::move(out_);
  }

 private:
  void stage(size_t number, size_t indent) {
    const NestStage& printed = nest_.stages[number];
    const std::string& name = nest_.dag->stages[number].name;
    if (indent > kDeepestNest) return;
    if (printed.auto_unroll_max_step != 0)
      out_ += fmt::format("{:{}}{} auto_unroll: {}\n", "", indent, name, printed.auto_unroll_max_step);
    if (printed.storage_offset != 0)
      out_ += fmt::format("{:{}}{} storage_offset: {}\n", "", indent, name, printed.storage_offset);
    for (size_t i = 0; i < printed.iterators.size(); ++i) {
      const NestIterator& iterator = printed.iterators[i];
      const NestVariable& loop = nest_.variable(iterator);
      if (!loop.extent.constant() || loop.extent.base != 1) {
        const char* kind = iterator.annotation == Annotation::none ? "for" : annotation_name(iterator.annotation);
        out_ += fmt::format("{:{}}{} {} ({},{})\n", "", indent, kind, iterator_name(nest_, iterator),
                            bound_text(nest_, loop.minimum), bound_text(nest_, loop.extent));
        indent += 2;
      }
      for (const int32_t attached : attached_stages(nest_, number, i)) stage(static_cast<size_t>(attached), indent);
    }
    out_ += fmt::format("{:{}}{} = ...\n", "", indent, name);
  }

  const LoopNest& nest_;
  std::string out_;
};

}  // namespace

const char* kind_name(IteratorKind kind) {
  constexpr const char* kNames[] = {"spatial", "reduce", "mixed", "special"};
  return kNames[static_cast<size_t>(kind)];
}

const char* compute_at_name(ComputeAt at) {
  constexpr const char* kNames[] = {"root", "inlined", "iter"};
  return kNames[static_cast<size_t>(at)];
}

size_t LoopNest::stage_of(int32_t serial) const {
  const auto found = std::ranges::find_if(stages, [&](const NestStage& stage) { return stage.serial == serial; });
  return static_cast<size_t>(found - stages.begin());
}

std::string iterator_name(const LoopNest& nest, const NestIterator& iterator) {
  std::string name;
  append_name(nest, iterator.name, 0, name);
  return name;
}

std::string loop_name(const LoopNest& nest, int32_t variable) {
  const Annotation thread = nest.variables[static_cast<size_t>(variable)].thread;
  if (thread != Annotation::none) return annotation_name(thread);
  std::string name;
  append_loop_name(nest, variable, 0, name);
  return name;
}

std::string bound_text(const LoopNest& nest, const Affine& bound) {
  return nest.pool.to_text(bound, [&](int32_t id) { return loop_name(nest, id < 0 ? ~id : id); });
}

std::vector<int32_t> attached_stages(const LoopNest& nest, size_t stage, size_t position) {
  std::vector<int32_t> attached;
  for (size_t i = 0; i < nest.stages.size(); ++i) {
    if (nest.stages[i].attach_stage == static_cast<int32_t>(stage) &&
        nest.stages[i].attach_iterator == static_cast<int32_t>(position))
      attached.push_back(static_cast<int32_t>(i));
  }
  std::ranges::sort(attached, [&](int32_t a, int32_t b) {
    return nest.stages[static_cast<size_t>(a)].attach_order < nest.stages[static_cast<size_t>(b)].attach_order;
  });
  return attached;
}

std::string to_text(const LoopNest& nest) { return NestPrinter(nest).print(); }

}  // namespace foretime::data
