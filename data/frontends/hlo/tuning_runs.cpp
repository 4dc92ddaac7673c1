#include "data/frontends/hlo/tuning_runs.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/frontends/hlo/feature_row.h"
#include "data/frontends/hlo/hlo.pb.h"

namespace foretime::data {
namespace {

enum TuningField : uint32_t { kTuningModule = 1, kFingerprint = 2, kRuns = 3, kConfigIndexToNode = 4 };
using Run = hlo::ConfigProfile;

/// Runs, and configurable nodes, of one module: of TpuGraphs' none has more than 100,040. A run of four bytes takes
/// some hundred once it is listed.
constexpr size_t kMostRuns = 4'000'000;
constexpr int kTileDimensions = 6;
constexpr int kTensors = 3;

struct RunState {
  CandidateKind kind = CandidateKind::layout;
  bool configured = false, failed = false, is_default = false;
  int64_t runtime = 0;
};

int64_t run_time(const HloSource& source, std::string_view profile) {
  int64_t time = 0;
  WireReader reader(source, profile);
  for (WireField field; reader.next(field);) {
    if (field.is_varint(hlo::ExecutionProfile::kComputeTimeNsFieldNumber)) time = static_cast<int64_t>(field.value);
  }
  return time;
}

RunState state_of(const HloSource& source, std::string_view run) {
  RunState state;
  WireReader reader(source, run);
  for (WireField field; reader.next(field);) {
    const bool tile = field.is_bytes(Run::kOpConfigFieldNumber);
    if (tile || field.is_bytes(Run::kModuleConfigFieldNumber)) {
      state.kind = tile ? CandidateKind::tile : CandidateKind::layout;
      state.configured = true;
    }
    if (field.is_varint(Run::kErrorFieldNumber)) state.failed = field.value != 0;
    if (field.is_varint(Run::kIsDefaultFieldNumber)) state.is_default = field.value != 0;
    if (field.is_bytes(Run::kProfileFieldNumber)) state.runtime = run_time(source, field.bytes);
  }
  if (!state.failed && !state.configured)
    source.fail(fmt::format("byte {}: a run with neither op_config nor module_config", source.offset(run)));
  const int64_t least = state.kind == CandidateKind::tile ? 2 : 1;
  if (state.failed || state.runtime < least) state.runtime = 0;
  return state;
}

void add_positions(const HloSource& source, const WireField& field, std::vector<int64_t>& positions) {
  if (field.type == WireField::Type::varint) positions.push_back(static_cast<int64_t>(field.value));
  uint64_t value = 0;
  int shift = 0;
  for (const char c : field.bytes) {  // packed
    const auto byte = static_cast<uint8_t>(c);
    if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
    shift += 7;
    if (byte >= 0x80) continue;
    if (positions.size() > kMostRuns) return;
    positions.push_back(static_cast<int64_t>(value));
    value = 0;
    shift = 0;
  }
  if (shift != 0)
    source.fail(fmt::format("byte {}: config_index_to_node ends inside a number", source.offset(field.whole)));
}

/// `most`: bytes that a run may have. Parsed messages are some dozens of times larger than their bytes.
void parse(const HloSource& source, std::string_view bytes, size_t most, Run& run) {
  if (bytes.size() > most)
    source.fail(
        fmt::format("byte {}: a run of {} bytes, expected at most {}", source.offset(bytes), bytes.size(), most));
  if (!run.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    source.fail(fmt::format("byte {}: no ConfigProfile; the file is damaged", source.offset(bytes)));
}

}  // namespace

TuningOutline outline_tuning(const HloSource& source, std::string_view module_tuning_data) {
  TuningOutline tuning;
  WireReader reader(source, module_tuning_data);
  for (WireField field; reader.next(field);) {
    if (field.is_bytes(kTuningModule)) tuning.module.push_back(field.bytes);
    if (field.is_varint(kFingerprint)) tuning.fingerprint = field.value;
    if (field.is_bytes(kRuns)) tuning.runs.push_back(field.bytes);
    if (field.number == kConfigIndexToNode) add_positions(source, field, tuning.layout_nodes);
    if (std::max(tuning.runs.size(), tuning.layout_nodes.size()) > kMostRuns)
      source.fail(fmt::format("more than {} runs or configurable nodes of one module, which is the limit", kMostRuns));
  }
  return tuning;
}

TuningCandidates choose_candidates(const HloSource& source, const TuningOutline& tuning) {
  std::vector<RunState> states;
  states.reserve(tuning.runs.size());
  bool measured = false;
  for (const auto run : tuning.runs) {
    states.push_back(state_of(source, run));
    measured |= states.back().runtime > 0;
  }
  TuningCandidates chosen;
  for (size_t i = 0; i < states.size(); ++i) {
    const RunState& state = states[i];
    if (measured ? state.runtime == 0 : state.failed) {
      ++chosen.left_out;
      continue;
    }
    if (!chosen.runs.empty() && state.kind != chosen.kind)
      source.fail(
          fmt::format("byte {}: run {} has another kind of configuration than those before it, expected tiles "
                      "or layouts for all",
                      source.offset(tuning.runs[i]), i));
    chosen.kind = state.kind;
    chosen.runs.push_back(tuning.runs[i]);
    chosen.runtimes.push_back(state.runtime);
    if (state.is_default && chosen.default_runtime == 0) chosen.default_runtime = state.runtime;
  }
  return chosen;
}

void read_tile_features(const HloSource& source, std::string_view bytes, float* features) {
  constexpr size_t kMost = 64 << 10;
  Run run;
  parse(source, bytes, kMost, run);
  const auto& tile = run.op_config().tile_size_config();
  FeatureRow row(features);
  const auto as_it_is = [](int64_t bound) { return bound; };
  row.totals("kernel bounds", tile.kernel_bounds(), kTileDimensions, as_it_is, 0);
  row.totals("output bounds", tile.output_bounds(), kTileDimensions, as_it_is, 0);
  row.totals("input bounds", tile.input_bounds(), kTileDimensions, as_it_is, 0);
  if (!row.wrong().empty()) source.fail(fmt::format("byte {}: a run: {}", source.offset(bytes), row.wrong()));
}

void read_layout_features(const HloSource& source, std::string_view bytes, int64_t nodes, float* features) {
  const size_t most = (64 << 10) + 256 * static_cast<size_t>(nodes);
  Run run;
  parse(source, bytes, most, run);
  const auto& layouts = run.module_config().layout_config().nodes();
  if (layouts.size() != nodes)
    source.fail(fmt::format("byte {}: a run with layouts of {} nodes, expected {} as config_index_to_node has",
                            source.offset(bytes), layouts.size(), nodes));
  std::fill_n(features, nodes * kLayoutFeatures, -1.0f);
  for (const auto& node : layouts) {
    if (node.tensors_size() > kTensors)
      source.fail(fmt::format("byte {}: a run with layouts of {} tensors at one node, expected at most {}",
                              source.offset(bytes), node.tensors_size(), kTensors));
    for (int t = 0; t < node.tensors_size(); ++t) {
      const auto& dimensions = node.tensors(t).dims();
      std::copy_n(dimensions.begin(), std::min(dimensions.size(), kTileDimensions),
                  features + int64_t{t} * kTileDimensions);
    }
    features += kLayoutFeatures;
  }
}

}  // namespace foretime::data
