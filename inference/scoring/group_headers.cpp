#include "inference/scoring/group_headers.h"

#include <fmt/format.h>

#include "configs/settings.h"
#include "data/frontends/loops/loop_graph.h"

namespace foretime::inference {

data::FeaturizerPtr featurizer_of(const ScoringSpec& spec) {
  configs::DataSettings settings;
  if (spec.representation) settings.representation = *spec.representation;
  if (spec.hardware) {
    const auto& machine = *spec.hardware;
    settings.hardware = {machine.vector_bytes, machine.vector_registers, machine.cores,
                         machine.l1_bytes,     machine.l2_bytes,         machine.l3_bytes};
  }
  return data::make_featurizer(settings);
}

std::vector<data::GroupHeader> list_groups(const Model& model, const std::vector<std::string>& files) {
  const auto& spec = model.spec();
  auto headers = data::list_groups(files, ".", spec.kind, {}, featurizer_of(spec));
  for (const auto& header : headers) {
    if (header.feature_count != spec.feature_count)
      throw DataError(fmt::format("{}: {} node features, the model was trained on {}", header.file.string(),
                                  header.feature_count, spec.feature_count));
  }
  return headers;
}

}  // namespace foretime::inference
