#pragma once

#include <memory>
#include <vector>

#include "data/graphs/group.h"
#include "models/model.h"
#include "models/statistics.h"

namespace foretime::models {

/// Seeded, in double precision, with its feature transform fitted to `groups`; FastText vectors are random.
inline std::shared_ptr<CostModel> fitted_model(const configs::ModelSettings& settings,
                                               const std::vector<const data::Group*>& groups) {
  torch::manual_seed(7);
  const InputSchema schema{groups[0]->kind, groups[0]->graphs.feature_count, groups[0]->graphs.node_type_count};
  auto model = make_model(settings, schema);
  model->to(torch::kDouble);
  StatisticsAccumulator accumulator(schema, settings.features.log);
  for (const data::Group* group : groups) accumulator.add(*group);
  auto statistics = accumulator.finish();
  if (settings.node_types.vectors == configs::NodeTypeVectors::fasttext)
    statistics.type_vectors = torch::randn({schema.node_type_count, settings.node_type_embedding});
  model->fit_transform(statistics);
  return model;
}

}  // namespace foretime::models
