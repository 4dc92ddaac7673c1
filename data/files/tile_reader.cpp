#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "data/files/npz_groups.h"

namespace foretime::data {
namespace {

const ShapeRule kTileFeatureRule{{kAnySize, kTileFeatures}, "(configs, 24)"};

}  // namespace

void describe_tile(const NpzReader& file, GroupHeader& header) {
  describe_hlo_graph(file, header);
  header.candidates = file.size("config_feat", kTileFeatureRule, 0);
}

Group read_tile(const NpzReader& file) {
  Group group;
  group.kind = CandidateKind::tile;
  group.unit = RuntimeUnit::normalized;
  auto features = file.read<float>("config_feat", kTileFeatureRule);
  group.candidates = static_cast<int64_t>(features.size()) / kTileFeatures;
  if (group.candidates == 0)
    throw DataError(fmt::format("{}: no candidates, expected one or more", file.origin("config_feat")));
  for (size_t i = 0; i < features.size(); ++i) {
    if (!std::isfinite(features[i]))
      throw DataError(fmt::format("{}: {} at candidate {}, column {}, expected finite numbers",
                                  file.origin("config_feat"), features[i], i / kTileFeatures, i % kTileFeatures));
  }
  const ShapeRule rule{{group.candidates}, "(configs,)"};
  const auto runtimes = file.read<int64_t>("config_runtime", rule);
  const auto normalizers = file.read<int64_t>("config_runtime_normalizers", rule);
  std::vector<double> labels(runtimes.size());
  for (size_t c = 0; c < labels.size(); ++c) {
    if (normalizers[c] <= 0)
      throw DataError(fmt::format("{}: {} at candidate {}, expected a positive number",
                                  file.origin("config_runtime_normalizers"), normalizers[c], c));
    labels[c] = static_cast<double>(runtimes[c]) / static_cast<double>(normalizers[c]);
  }
  check_runtimes(labels, true, file.origin("config_runtime"));
  group.tile_features = std::move(features);
  group.runtimes = std::move(labels);
  group.graphs = read_hlo_graph(file);
  return group;
}

}  // namespace foretime::data
