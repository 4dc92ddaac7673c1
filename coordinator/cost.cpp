#include "coordinator/cost.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "configs/load.h"

namespace foretime::coordinator {

int64_t least_segments(int64_t nodes, const configs::SamplerSettings& sampler) {
  const int64_t most = sampler.max_segment_nodes;
  return most == 0 ? 1 : std::max<int64_t>(1, (nodes + most - 1) / most);
}

ResidentBytes estimate_resident_bytes(const data::GroupHeader& header, const configs::Settings& settings) {
  const auto& model = settings.model;
  const auto& sampler = settings.sampler;
  const auto nodes = static_cast<double>(header.nodes), edges = static_cast<double>(header.edges),
             candidates = static_cast<double>(header.candidates), hidden = static_cast<double>(model.hidden);
  ResidentBytes bytes;
  bytes.divided = static_cast<double>(header.configurable) * candidates +
                  nodes * (4 * static_cast<double>(header.feature_count) + 9) + 24 * edges;
  double live_nodes = nodes;
  if (sampler.max_segment_nodes > 0) {
    const auto segments = static_cast<double>(least_segments(header.nodes, sampler));
    bytes.divided += 4 * segments * candidates * hidden * static_cast<double>(model.readout.size());
    live_nodes = std::min(nodes, static_cast<double>(sampler.max_segment_nodes));
  }
  const auto drawn = static_cast<double>(std::min(sampler.candidates_per_group, header.candidates));
  bytes.whole =
      24 * candidates + 8 * live_nodes * drawn * hidden * static_cast<double>(model.layers + model.encoder_layers + 1);
  return bytes;
}

int64_t count_parts(const data::GroupHeader& header, const configs::Settings& settings) {
  const int64_t limit = settings.shard.max_rank_bytes;
  if (limit == 0 || header.kind != data::CandidateKind::layout) return 1;
  const auto bytes = estimate_resident_bytes(header, settings);
  if (bytes.total() <= static_cast<double>(limit)) return 1;
  const auto found = fmt::format(
      "{}: group {} needs about {:.0f} bytes ({} nodes, {} configurable, {} candidates), "
      "above shard.max_rank_bytes ({})",
      header.file.string(), header.name, bytes.total(), header.nodes, header.configurable, header.candidates, limit);
  if (settings.sampler.max_segment_nodes == 0) {
    throw configs::SettingsError(found +
                                 "; only graphs with segments can span ranks: set sampler.max_segment_nodes, "
                                 "or raise shard.max_rank_bytes");
  }
  const int64_t segments = least_segments(header.nodes, settings.sampler);
  const double room = static_cast<double>(limit) - bytes.whole;
  if (room <= 0 || std::ceil(bytes.divided / room) > static_cast<double>(segments)) {
    throw configs::SettingsError(
        found + fmt::format("; its {} segments cannot meet that, {:.0f} bytes go to each part whatever its size: lower "
                            "sampler.max_segment_nodes or sampler.candidates_per_group, or raise shard.max_rank_bytes",
                            segments, bytes.whole));
  }
  return static_cast<int64_t>(std::ceil(bytes.divided / room));
}

double estimate_draw_cost(const data::GroupHeader& header, const configs::Settings& settings) {
  const auto taken = static_cast<double>(std::min(settings.sampler.candidates_per_group, header.candidates));
  const auto size = static_cast<double>(header.nodes + header.edges);
  // Programs are graphs of their own; layout candidates each have all nodes.
  if (header.kind == data::CandidateKind::program)
    return size * taken / std::max<double>(1.0, static_cast<double>(header.graphs));
  return size * taken / static_cast<double>(least_segments(header.nodes, settings.sampler));
}

}  // namespace foretime::coordinator
