#include "data/graphs/group_header.h"

namespace foretime::data {

GroupSummary summarize(const Group& group) {
  GroupSummary summary;
  summary.runtimes = group.runtimes;
  summary.flops = group.flops;
  summary.configurations = configuration_hashes(group);
  const auto features = group.graphs.node_features.span();
  summary.features = column_statistics(features, group.graphs.feature_count, false);
  summary.log_features = column_statistics(features, group.graphs.feature_count, true);
  if (group.kind == CandidateKind::tile) {
    summary.tile_features = column_statistics(group.tile_features.span(), kTileFeatures, false);
    summary.log_tile_features = column_statistics(group.tile_features.span(), kTileFeatures, true);
  }
  return summary;
}

}  // namespace foretime::data
