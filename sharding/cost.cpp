#include "sharding/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "configs/load.h"

namespace foretime::sharding {
namespace {

/// The law of estimate_states for one level.
struct SharingLaw {
  double factor, nodes, drawn;
};
const SharingLaw kSharing[] = {{std::exp(4.086), 0.270, 0.034},
                               {std::exp(4.649), 0.279, 0.136},
                               {std::exp(5.030), 0.243, 0.305},
                               {std::exp(4.631), 0.295, 0.520},
                               {std::exp(4.345), 0.341, 0.695}};
constexpr double kSharedMessages = 3.7;
constexpr double kGatherWeight = 4;

}  // namespace

int64_t least_segments(int64_t nodes, const configs::SamplerSettings& sampler) {
  const int64_t most = sampler.max_segment_nodes;
  return most == 0 ? 1 : std::max<int64_t>(1, (nodes + most - 1) / most);
}

double estimate_kept_nodes(const data::GroupHeader& header, const configs::DataSettings& settings) {
  const double nodes = header.nodes, configurable = header.configurable;
  if (settings.prune_hops < 0 || header.kind != data::CandidateKind::layout || header.configurable == 0) return nodes;
  if (settings.prune_hops == 0) return std::min(configurable, nodes);
  const double reached = 1.7 * std::exp2(std::min<int64_t>(settings.prune_hops, 64));
  return std::clamp(nodes * -std::expm1(-reached * configurable / nodes), std::min(configurable, nodes), nodes);
}

ResidentBytes estimate_resident_bytes(const data::GroupHeader& header, const configs::Settings& settings) {
  const auto& model = settings.model;
  const auto& sampler = settings.sampler;
  const double nodes = estimate_kept_nodes(header, settings.data);
  const double kept = header.nodes > 0 ? nodes / header.nodes : 1.0;
  const double edges = header.edges * kept;
  const double candidates = header.candidates, hidden = model.hidden;
  ResidentBytes bytes;
  bytes.divided = header.configurable * candidates + nodes * (4.0 * header.feature_count + 9) + 24 * edges;
  if (sampler.max_segment_nodes > 0) {
    const double segments = least_segments(nodes, sampler);
    bytes.divided += 4 * segments * candidates * hidden * model.readout.size();
  }
  const auto states = estimate_states(header, settings);
  bytes.whole = 24 * candidates;
  bytes.sample = 16 * hidden * std::accumulate(states.begin(), states.end(), 0.0);
  return bytes;
}

int64_t count_parts(const data::GroupHeader& header, const configs::Settings& settings) {
  const int64_t limit = settings.shard.max_rank_bytes;
  if (limit == 0 || header.kind != data::CandidateKind::layout) return 1;
  const auto bytes = estimate_resident_bytes(header, settings);
  if (bytes.total() <= limit) return 1;
  const auto found = fmt::format(
      "{}: group {} needs about {:.0f} bytes ({} nodes, "
      "{} configurable, {} candidates), above shard.max_rank_bytes ({})",
      header.file.string(), header.name, bytes.total(), header.nodes, header.configurable, header.candidates, limit);
  if (settings.sampler.max_segment_nodes == 0)
    throw configs::SettingsError(
        found +
        "; only graphs with segments can span ranks: set sampler.max_segment_nodes, or raise shard.max_rank_bytes");
  const int64_t segments = least_segments(header.nodes, settings.sampler);
  const double room = limit - bytes.whole - bytes.sample;
  if (room <= 0 || std::ceil(bytes.divided / room) > segments)
    throw configs::SettingsError(
        found +
        fmt::format("; its {} segments are not enough parts, since each part needs {:.0f} bytes whatever its size: "
                    "lower sampler.max_segment_nodes or sampler.candidates_per_group, or raise shard.max_rank_bytes",
                    segments, bytes.whole + bytes.sample));
  return std::ceil(bytes.divided / room);
}

std::vector<double> estimate_states(const data::GroupHeader& header, const configs::Settings& settings,
                                    double samples) {
  const auto levels = static_cast<size_t>(configs::message_hops(settings.model)) + 1;
  const int64_t wanted = settings.sampler.candidates_per_group, at_once = wanted == 0 ? header.candidates : wanted;
  const double nodes = std::max(estimate_kept_nodes(header, settings.data), 1.0),
               drawn = std::clamp(samples * at_once, 1.0, std::max<double>(1.0, header.candidates));
  if (header.kind == data::CandidateKind::program)
    return std::vector<double>(levels, nodes * drawn / std::max<int64_t>(header.graphs, 1));
  if (header.kind == data::CandidateKind::tile) return std::vector<double>(levels, nodes * drawn);
  std::vector<double> fitted;
  for (const auto& law : kSharing)
    fitted.push_back(law.factor * std::pow(nodes, law.nodes) * std::pow(drawn, law.drawn));
  const double growth = fitted[4] / fitted[3];
  while (fitted.size() < levels) fitted.push_back(fitted.back() * growth);
  fitted.resize(levels);
  const double segments = least_segments(nodes, settings.sampler);
  for (auto& states : fitted) states = std::min(states, nodes * drawn) / segments;
  return fitted;
}

double estimate_sample_cost(const data::GroupHeader& header, const configs::Settings& settings, double samples) {
  const auto& model = settings.model;
  const double width = model.hidden;
  const double inputs = static_cast<double>(header.feature_count + model.node_type_embedding) +
                        (header.kind == data::CandidateKind::layout ? data::kLayoutFeatures : 0);
  const double first = width * inputs + width * width * std::max<int64_t>(0, model.encoder_layers - 1);
  const double messages = header.kind == data::CandidateKind::layout
                              ? kSharedMessages
                              : 2.0 * header.edges / std::max<int64_t>(1, header.nodes);
  const double above = 2 * width * width + kGatherWeight * messages * width;
  const auto states = estimate_states(header, settings, samples);
  double cost = states.front() * first;
  for (size_t level = 1; level < states.size(); ++level) cost += states[level] * above;
  return cost;
}

double estimate_sharing(const data::GroupHeader& header, const configs::Settings& settings) {
  const bool segments = settings.sampler.max_segment_nodes > 0 &&
                        least_segments(estimate_kept_nodes(header, settings.data), settings.sampler) > 1;
  if (header.kind != data::CandidateKind::layout || segments) return 1;
  constexpr double kSamples = 8;
  const double one = estimate_sample_cost(header, settings), several = estimate_sample_cost(header, settings, kSamples);
  return one > 0 ? std::clamp(std::log(several / one) / std::log(kSamples), 0.0, 1.0) : 1;
}

}  // namespace foretime::sharding
