#include "data/frontends/loops/featurizers.h"

#include "data/frontends/loops/curve_graph.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/tree_program.h"

namespace foretime::data {
namespace {

/// Makes graphs of the loop programs of trees.
class LoopFeaturizer : public Featurizer {
 public:
  LoopFeaturizer(configs::Representation representation, const Hardware& hardware)
      : representation_(representation), hardware_(hardware) {}
  std::string name() const override { return word_of(representation_); }
  int64_t feature_count() const override { return program_columns(representation_); }
  GraphBlock graphs(ProgramNodes trees, std::span<const double> operations) const override {
    const auto graphs = make_program_graphs(representation_, hardware_);
    TreeProgram reader;
    LoopProgram program;
    for (int64_t graph = 0; graph < trees.graphs(); ++graph) {
      reader.read(trees, graph, program);
      graphs->add(program, operations.empty() ? 0.0 : operations[static_cast<size_t>(graph)]);
    }
    return graphs->finish();
  }

 private:
  configs::Representation representation_;
  Hardware hardware_;
};

}  // namespace

int64_t program_columns(configs::Representation representation) {
  if (representation == configs::Representation::loops) return LoopColumns::count;
  return representation == configs::Representation::curve ? CurveColumns::count : 0;
}

std::unique_ptr<ProgramGraphs> make_program_graphs(configs::Representation representation, const Hardware& hardware) {
  if (representation == configs::Representation::loops) return std::make_unique<LoopGraphs>(hardware);
  if (representation == configs::Representation::curve) return std::make_unique<CurveGraphs>();
  return nullptr;
}

FeaturizerPtr make_featurizer(const configs::DataSettings& settings) {
  if (program_columns(settings.representation) == 0) return nullptr;  // the trees as they are
  return std::make_shared<LoopFeaturizer>(settings.representation, hardware_of(settings.hardware));
}

Hardware hardware_of(const configs::HardwareSettings& settings) {
  return {.vector_bytes = settings.vector_bytes,
          .vector_registers = settings.vector_registers,
          .cores = settings.cores,
          .l1_bytes = settings.l1_bytes,
          .l2_bytes = settings.l2_bytes,
          .l3_bytes = settings.l3_bytes};
}

}  // namespace foretime::data
