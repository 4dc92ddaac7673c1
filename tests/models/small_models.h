#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "configs/load.h"
#include "configs/settings.h"
#include "data/graphs/group.h"
#include "models/model.h"
#include "models/sparse/plan_tensors.h"
#include "models/statistics.h"
#include "plans/message_plan.h"

/// Small models of every kind, and plans for them.
namespace foretime::testing {

/// Ways in which a graph model can be set up, by name, as overrides of model.…: each runs through the same tests (slow
/// twin, finite differences, batches, relabelled nodes, shared states).
inline const std::vector<std::pair<std::string, std::vector<const char*>>>& graph_variants() {
  static const std::vector<std::pair<std::string, std::vector<const char*>>> variants = {
      {"mlp", {"type=mlp"}},
      {"gcn", {"type=gcn"}},
      {"residual_gcn", {"type=residual_gcn"}},
      {"residual_gcn_embedded_layouts",
       {"type=residual_gcn", "features.layout=embedding", "features.layout_embedding=2"}},
      {"preactivated_gcn", {"type=preactivated_gcn"}},
      {"sage", {"type=sage"}},
      {"mlp_of_raw_inputs", {"type=mlp", "encoder_layers=0"}},
      {"sage_of_raw_inputs", {"type=sage", "encoder_layers=0", "residual=false", "features.layout=embedding"}},
      {"gat_of_a_narrow_encoder", {"type=gat", "encoder_hidden=5"}},
      {"sage_max", {"type=sage", "sage.aggregation=max"}},
      {"sage_sum_together",
       {"type=sage", "sage.aggregation=sum", "sage.directions=together", "l2_normalize=true", "residual=false"}},
      {"gin", {"type=gin"}},
      {"gin_together", {"type=gin", "gin.directions=together", "features.layout=learned_scale"}},
      {"gat", {"type=gat"}},
      {"gat_together", {"type=gat", "gat.directions=together", "residual=false"}},
      {"transformer", {"type=transformer"}},
      {"transformer_together", {"type=transformer", "transformer.directions=together", "transformer.heads=1"}},
      {"chebnet", {"type=chebnet"}},
      {"chebnet_of_two", {"type=chebnet", "chebnet.order=2", "residual=false"}},
      {"stacked", {"type=stacked", "stacked.convolutions=[chebnet, sage, gat]", "norm=layer"}},
      {"sage_batch_norm", {"type=sage", "norm=batch"}},
      {"chebnet_batch_norm", {"type=chebnet", "norm=batch"}},
      {"gcn_collections", {"type=gcn", "collection_embedding=3"}},
      {"gcn_layout_gate", {"type=gcn", "layout_gate=true"}},
      {"gcn_candidate_norm", {"type=gcn", "candidate_norm=true", "candidate_attention=true"}},
      {"gcn_candidate_attention", {"type=gcn", "candidate_attention=true"}},
  };
  return variants;
}

inline std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const auto& [name, overrides] : graph_variants()) names.push_back(name);
  return names;
}

/// A narrow model of one of the variants.
inline configs::ModelSettings variant_settings(const std::string& name,
                                               const std::vector<configs::ReadoutPart>& readout) {
  configs::Settings settings;
  settings.model.hidden = 6;
  settings.model.node_type_embedding = 4;
  settings.model.features.layout_scale = 0.5;
  settings.model.readout = readout;
  settings.model.gat.heads = settings.model.transformer.heads = 2;
  for (const auto& [variant, overrides] : graph_variants()) {
    if (variant != name) continue;
    for (const std::string override : overrides) {
      const auto equals = override.find('=');
      configs::apply_override(settings, "model." + override.substr(0, equals), override.substr(equals + 1));
    }
  }
  return settings.model;
}

/// Seeded, in double precision, with its feature transform fitted to `groups`; FastText vectors are random.
inline std::shared_ptr<models::CostModel> fitted_model(const configs::ModelSettings& settings,
                                                       const std::vector<const data::Group*>& groups) {
  torch::manual_seed(7);
  const models::InputSchema schema{groups[0]->kind, groups[0]->graphs.feature_count, groups[0]->graphs.node_type_count};
  auto model = models::make_model(settings, schema);
  model->to(torch::kDouble);
  models::StatisticsAccumulator accumulator(schema, settings.features.log);
  for (const data::Group* group : groups) accumulator.add(*group);
  auto statistics = accumulator.finish();
  if (settings.node_types.vectors == configs::NodeTypeVectors::fasttext)
    statistics.type_vectors = torch::randn({schema.node_type_count, settings.node_type_embedding});
  model->fit_transform(statistics);
  return model;
}

/// The plan that a model asks for, of some candidates of each group.
inline models::PlanTensors plan_of(const models::CostModel& model,
                                   const std::vector<std::pair<const data::Group*, std::vector<int64_t>>>& batch,
                                   torch::Dtype dtype = torch::kDouble) {
  plans::PlanBuilder builder(model.plan_request());
  for (const auto& [group, ids] : batch) builder.add(*group, ids);
  return models::to_tensors(std::move(builder).build(), {.dtype = dtype});
}

/// The parameters of a model by name, for gradient checks.
inline std::vector<std::pair<std::string, torch::Tensor>> leaves_of(const models::CostModel& model) {
  std::vector<std::pair<std::string, torch::Tensor>> leaves;
  for (const auto& item : model.named_parameters()) leaves.emplace_back(item.key(), item.value());
  return leaves;
}

}  // namespace foretime::testing
