#include "data/frontends/loops/curve_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/frontends/loops/loop_columns.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

/// Statements by iterations, the most first; in program order where they agree.
std::vector<size_t> heaviest(const LoopProgram& program) {
  std::vector<size_t> order(program.statements.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto iterations = [&](size_t i) { return program.iterations(program.statements[i]); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return iterations(a) > iterations(b); });
  return order;
}

/// The store, then the loads by the size of their buffers.
std::vector<const ProgramAccess*> by_size(const LoopProgram& program, const ProgramStatement& statement) {
  std::vector<const ProgramAccess*> ordered;
  for (const ProgramAccess& access : program.accesses_of(statement)) ordered.push_back(&access);
  std::stable_sort(ordered.begin() + 1, ordered.end(), [&](const ProgramAccess* a, const ProgramAccess* b) {
    return program.buffers[static_cast<size_t>(a->buffer)].elements >
           program.buffers[static_cast<size_t>(b->buffer)].elements;
  });
  return ordered;
}

}  // namespace

void CurveGraphs::add(const LoopProgram& program, double) {
  features_.resize(features_.size() + static_cast<size_t>(CurveColumns::count), 0.0F);
  float* row = features_.data() + features_.size() - static_cast<size_t>(CurveColumns::count);
  ++programs_;
  const auto order = heaviest(program);
  for (int64_t s = 0; s < CurveColumns::kStatements && s < static_cast<int64_t>(order.size()); ++s) {
    const ProgramStatement& statement = program.statements[order[static_cast<size_t>(s)]];
    const auto loops = program.loops_of(statement);
    const double all = program.iterations(statement);
    const auto accesses = by_size(program, statement);
    for (int64_t a = 0; a < CurveColumns::kAccesses && a < static_cast<int64_t>(accesses.size()); ++a) {
      const auto steps = program.strides_of(statement, *accesses[static_cast<size_t>(a)]);
      const auto raise = [&](int64_t curve, double x, double value) {
        for (int64_t t = 0; t < CurveColumns::kThresholds; ++t) {
          if (x > std::exp2(2.0 * static_cast<double>(t))) continue;
          float& column = row[CurveColumns::column(s, a, curve, t)];
          column = std::max(column, static_cast<float>(log_of(value)));
        }
      };
      double inside = 1.0;
      for (size_t i = loops.size() + 1; i-- > 0;) {  // from the statement itself, which touches one element, outwards
        const double touch = i == loops.size() ? 1.0 : steps[i].footprint;
        if (i < loops.size()) inside *= static_cast<double>(loops[i].extent);
        const double reuse = inside / touch;
        raise(0, touch, reuse);
        raise(1, touch, inside);
        raise(2, reuse, all / inside);
      }
    }
  }
}

GraphBlock CurveGraphs::finish() {
  GraphBlock block;
  block.feature_count = CurveColumns::count;
  block.node_type_count = kTirTypes;
  std::vector<int64_t> graph_ptr(static_cast<size_t>(programs_) + 1);
  std::iota(graph_ptr.begin(), graph_ptr.end(), int64_t{0});
  block.graph_ptr = std::move(graph_ptr);
  block.edge_ptr = std::vector<int64_t>(static_cast<size_t>(programs_) + 1, 0);
  block.node_features = std::exchange(features_, {});
  block.node_types = std::vector<uint8_t>(static_cast<size_t>(programs_), tir_type_id("PrimFunc"));
  programs_ = 0;
  return block;
}

}  // namespace foretime::data
