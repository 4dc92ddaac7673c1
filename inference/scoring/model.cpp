#include "inference/scoring/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/index_range.h"
#include "configs/settings.h"
#include "data/dataset/table_pack.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/graphs/pruning.h"
#include "inference/bundle/pretrained.h"
#include "inference/scoring/graph_scorer.h"

namespace foretime::inference {
namespace {

ModelKind kind_of(const ScoringSpec& spec) {
  switch (spec.kind) {
    case data::CandidateKind::layout: return ModelKind::layout;
    case data::CandidateKind::tile: return ModelKind::tile;
    default: return spec.representation == configs::Representation::ast ? ModelKind::trees : ModelKind::loops;
  }
}

Options checked(Options options) {
  options.threads = std::clamp(options.threads, 1, 256);
  options.max_states = std::max<int64_t>(1, options.max_states);
  return options;
}

}  // namespace

const char* kind_name(ModelKind kind) {
  constexpr const char* kNames[] = {"layout", "tile", "loops", "trees"};
  return kNames[index_of(kind)];
}

Model::Model(Bundle bundle, const Options& options)
    : options_(checked(options)),
      spec_(read_scoring_spec(bundle)),
      kind_(kind_of(spec_)),
      manifest_(std::move(bundle.manifest)),
      manifest_text_(manifest_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
      executor_(spec_.graph, std::make_shared<const inference::Weights>(std::move(bundle.weights)),
                spec_.feature_count) {}

std::shared_ptr<const Model> Model::open(const std::filesystem::path& path, const Options& options) {
  const auto file = bundle_file(path);
  auto model = std::make_shared<Model>(read_bundle(file), options);
  model->file_ = file.string();
  return model;
}

std::shared_ptr<const Model> Model::parse(std::string_view bytes, const std::string& origin, const Options& options) {
  return std::make_shared<const Model>(parse_bundle(bytes, origin), options);
}

void Model::check_graphs(const data::Group& group) const {
  if (group.kind != spec_.kind)
    throw WrongKind("{}: found candidates of another kind than the model scores: {}", group.name, kind_name(kind_));
  const auto& graphs = group.graphs;
  if (graphs.feature_count != spec_.feature_count)
    throw DataError("{}: {} columns of node features, expected {} as the model was trained on", group.name,
                    graphs.feature_count, spec_.feature_count);
  for (const uint8_t type : graphs.node_types)
    if (type >= spec_.node_type_count)
      throw DataError("{}: node type {}, expected below {} as the model was trained on", group.name, type,
                      spec_.node_type_count);
}

std::vector<float> Model::score_group(const data::Group& group, std::span<const int64_t> candidates,
                                      std::vector<float>* failures) const {
  check_graphs(group);
  for (const int64_t c : candidates)
    if (c < 0 || c >= group.candidates)
      throw DataError("{}: candidate {}, expected 0 … {}", group.name, c, group.candidates - 1);
  const auto pruned = data::pruned_group(group, spec_.prune_hops);
  return score_candidates(*this, pruned, plans::make_plan_source(pruned, spec_.graph.request), candidates, failures);
}

std::vector<float> Model::score_group(const data::Group& group) const {
  std::vector<int64_t> all(group.candidates);
  std::iota(all.begin(), all.end(), 0);
  return score_group(group, all);
}

std::vector<double> Model::runtimes(std::span<const float> scores, std::span<const double> flops) const {
  if (!spec_.predicts_runtimes)
    throw WrongKind("the model ranks candidates, and does not predict run times: it was trained by a ranking loss");
  const bool per_flop = spec_.targets.kind == Targets::Kind::log_runtime_per_flop;
  if (per_flop && flops.size() != scores.size())
    throw WrongKind("the model predicts run times per arithmetic operation, and the number of operations is not given");
  std::vector<double> runtimes;
  runtimes.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const double score = scores[i];
    runtimes.push_back(std::isinf(score) && score > 0.0 ? score
                                                        : spec_.targets.to_runtime(score, per_flop ? flops[i] : 1.0));
  }
  return runtimes;
}

std::vector<double> Model::seconds(std::span<const float> scores, std::span<const double> flops) const {
  auto runtimes = this->runtimes(scores, flops);
  if (spec_.unit == data::RuntimeUnit::normalized)
    throw WrongKind("the model predicts run times relative to the default tile's, not in seconds");
  if (spec_.unit == data::RuntimeUnit::nanoseconds)
    for (double& runtime : runtimes) runtime *= 1e-9;
  return runtimes;
}

data::FeaturizerPtr featurizer_of(const ScoringSpec& spec) {
  return data::make_featurizer(spec.representation.value_or(configs::Representation::ast),
                               spec.hardware.value_or(data::Hardware()), spec.feature_count, spec.machines);
}

std::vector<data::GroupHeader> list_groups(const Model& model, const std::vector<std::string>& files) {
  const auto& spec = model.spec();
  auto headers = data::list_groups(files, ".", spec.kind, {}, featurizer_of(spec));
  for (const auto& header : headers)
    if (header.feature_count != spec.feature_count)
      throw DataError("{}: found {} node features, expected {} as in the model's training data", header.file.string(),
                      header.feature_count, spec.feature_count);
  data::check_columns(headers, spec.columns, "the model");
  return headers;
}

}  // namespace foretime::inference
