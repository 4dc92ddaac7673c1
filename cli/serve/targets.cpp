#include "cli/serve/targets.h"

#include <utility>

#include "cli/serve/graph_json.h"
#include "data/hlo_groups.h"
#include "data/program/record_program.h"

namespace foretime::cli {
namespace {

Scored to_scored(tuner::ProgramScores scores) {
  return {
      .scores = std::move(scores.scores), .failed = scores.failed, .first_failure = std::move(scores.first_failure)};
}

}  // namespace

GraphTarget::GraphTarget(const ModelPtr& model, data::Group group, NodeNames names)
    : weight_(group.graphs.nodes() + group.graphs.edges() / kEdgesOfANode),
      scorer_(model, std::move(group)),
      names_(std::move(names)),
      layouts_(model->kind() == tuner::ModelKind::layout),
      joins_(!model->terms().compares_candidates) {}

std::shared_ptr<const GraphTarget> GraphTarget::open(const ModelPtr& model, const std::string& body, bool json,
                                                     int64_t most_nodes) {
  const auto kind = model->terms().kind;
  const auto made = [&](data::Group group, NodeNames names) {
    return std::shared_ptr<const GraphTarget>(new GraphTarget(model, std::move(group), std::move(names)));
  };
  const data::HloLimits limits{.nodes = most_nodes, .edges = kEdgesOfANode * most_nodes};
  if (json) {
    JsonReader reader("graph");
    return made(read_graph_json(reader, reader.parse(body), kind, limits), {});
  }
  const data::HloFile file(body, "module");
  NodeNames names(file);
  return made(data::read_hlo_graph(file, file.modules().front(), kind, limits), std::move(names));
}

Scored GraphTarget::score(const Work& work) const {
  return {.scores =
              layouts_ ? scorer_.score_layouts(work.layouts, work.count) : scorer_.score_tiles(work.tiles, work.count)};
}

WorkloadTarget::WorkloadTarget(const ModelPtr& model, std::string_view stage_table)
    : scorer_(model, stage_table),
      operations_(data::operations_of(scorer_.dag())),
      joins_(!model->terms().compares_candidates) {}

Scored WorkloadTarget::score(const Work& work) const { return to_scored(scorer_.score(work.texts)); }

Scored TirTarget::score(const Work& work) const { return to_scored(tuner::score_tir(*model_, work.texts)); }

}  // namespace foretime::cli
