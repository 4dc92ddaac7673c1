#include "server/targets.h"

#include <utility>

#include "data/frontends/hlo/hlo_groups.h"
#include "data/frontends/loops/nest_program.h"
#include "server/graph_json.h"

namespace foretime::server {
namespace {

Scored to_scored(inference::ProgramScores scores) {
  return {
      .scores = std::move(scores.scores), .failed = scores.failed, .first_failure = std::move(scores.first_failure)};
}

}  // namespace

GraphTarget::GraphTarget(const ModelPtr& model, data::Group group, inference::NodeNames names)
    : weight_(group.graphs.nodes() + group.graphs.edges() / kEdgesOfANode),
      scorer_(model, std::move(group)),
      names_(std::move(names)),
      layouts_(model->kind() == inference::ModelKind::layout),
      joins_(!model->terms().compares_candidates) {}

std::shared_ptr<const GraphTarget> GraphTarget::open(const ModelPtr& model, const std::string& body, bool json,
                                                     int64_t most_nodes) {
  const auto kind = model->terms().kind;
  const auto made = [&](data::Group group, inference::NodeNames names) {
    return std::shared_ptr<const GraphTarget>(new GraphTarget(model, std::move(group), std::move(names)));
  };
  const data::HloLimits limits{.nodes = most_nodes, .edges = kEdgesOfANode * most_nodes};
  if (json) {
    JsonReader reader("graph");
    return made(read_graph_json(reader, reader.parse(body), kind, limits), {});
  }
  const data::HloFile file(body, "module");
  inference::NodeNames names(file);
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

Scored TirTarget::score(const Work& work) const { return to_scored(inference::score_tir(*model_, work.texts)); }

}  // namespace foretime::server
