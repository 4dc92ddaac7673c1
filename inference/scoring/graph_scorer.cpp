#include "inference/scoring/graph_scorer.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/graphs/pruning.h"
#include "data/graphs/validate.h"
#include "inference/scoring/embed.h"
#include "inference/scoring/layout_codes.h"

namespace foretime::inference {
namespace {

void expect_graphs(const Model& model) {
  if (model.kind() != ModelKind::layout && model.kind() != ModelKind::tile)
    throw WrongKind(fmt::format("a model of {}, expected one of layouts or tiles for graphs", kind_name(model.kind())));
}

/// The group with one candidate that says nothing, for what looks at groups as a whole.
data::Group with_candidate(data::Group group) {
  group.candidates = 1;
  group.runtimes = std::vector<double>{0.0};
  group.flops = {};
  group.candidate_ids = {};
  group.tile_features = {};
  if (group.kind == data::CandidateKind::tile) {
    group.tile_features = std::vector<float>(data::kTileFeatures, 0.0F);
    group.layout = {};
    return group;
  }
  const auto configurable = static_cast<size_t>(group.layout.configurable());
  std::vector<int64_t> row_ptr(configurable + 1);
  std::iota(row_ptr.begin(), row_ptr.end(), 0);
  group.layout.row_ptr = std::move(row_ptr);
  group.layout.rows = std::vector<int8_t>(configurable * data::kLayoutFeatures, 0);
  group.layout.codes = std::vector<uint8_t>(configurable, 0);
  return group;
}

std::vector<int64_t> first_numbers(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

GraphScorer::GraphScorer(std::shared_ptr<const Model> model, data::Group group) : model_(std::move(model)) {
  expect_graphs(*model_);
  group = with_candidate(std::move(group));
  data::validate_group(group, group.name);
  model_->check_graphs(group);
  nodes_ = group.graphs.nodes();
  configurable_ = group.layout.nodes;
  group_ = data::pruned_group(group, model_->spec().prune_hops);
  const auto& request = model_->spec().graph.request;
  const bool by_layouts = model_->kind() == ModelKind::layout && request.sharing != plans::Sharing::none;
  source_ = by_layouts ? plans::prepare_plan_source(group_, request) : plans::make_plan_source(group_, request);
}

std::shared_ptr<const plans::PlanSource> GraphScorer::source_of(const data::Group& group) const {
  constexpr int64_t kFew = 32;
  const auto& request = model_->spec().graph.request;
  if (request.sharing == plans::Sharing::none) return source_;
  if (source_ && group.candidates <= kFew) return plans::complete_plan_source(*source_, group.layout);
  return plans::make_plan_source(group, request);
}

GraphScorer GraphScorer::from_hlo(std::shared_ptr<const Model> model, std::string_view bytes) {
  expect_graphs(*model);
  const data::HloFile file(bytes, "HLO module");
  if (file.message() == data::HloMessage::tuning)
    throw DataError("HLO module: TuningData with modules, expected HloModuleProto, HloProto or ModuleTuningData");
  const auto kind = model->spec().kind;
  return {std::move(model), data::read_hlo_graph(file, file.modules().front(), kind)};
}

std::vector<float> GraphScorer::score_layouts(std::span<const int8_t> layouts, int64_t candidates) const {
  if (model_->kind() != ModelKind::layout) throw WrongKind("a model of tiles, expected one of layouts");
  if (candidates == 0) return {};
  const auto row = static_cast<int64_t>(configurable_.size()) * data::kLayoutFeatures;
  std::vector<float> scores;
  for (int64_t first = 0; first < candidates;) {
    auto coded =
        code_layouts(group_.layout.nodes, layouts.subspan(static_cast<size_t>(first * row)), candidates - first);
    if (coded.full >= 0 && model_->spec().compares_candidates)
      throw DataError(fmt::format(
          "layouts: candidate {} has the 257th distinct layout of node {}, expected at most 256 in one call "
          "of a model that compares candidates",
          coded.candidates, configurable_[coded.full]));
    data::Group group = group_;
    group.candidates = coded.candidates;
    group.layout = std::move(coded.layout);
    const auto some = score_candidates(*model_, group, source_of(group), first_numbers(coded.candidates));
    scores.insert(scores.end(), some.begin(), some.end());
    first += coded.candidates;
  }
  return scores;
}

std::vector<float> GraphScorer::score_tiles(std::span<const float> tiles, int64_t candidates) const {
  if (model_->kind() != ModelKind::tile) throw WrongKind("a model of layouts, expected one of tiles");
  if (candidates == 0) return {};
  if (const int64_t wrong = data::first_not_finite(tiles); wrong >= 0)
    throw DataError(fmt::format("tiles: {} at candidate {}, column {}, expected finite numbers",
                                tiles[static_cast<size_t>(wrong)], wrong / data::kTileFeatures,
                                wrong % data::kTileFeatures));
  data::Group group = group_;
  group.candidates = candidates;
  group.tile_features = Array<float>(tiles, nullptr);  // the caller's, as long as this call
  return score_candidates(*model_, group, source_, first_numbers(candidates));
}

}  // namespace foretime::inference
