#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/frontends/hlo/hlo_groups.h"
#include "data/graphs/group.h"

namespace foretime::data {

/// Writes a layout group as a TpuGraphs `.npz` with the entries, types and orders of the published files. Expands
/// node_config_feat from the codes while compressing it, so memory stays bounded. The file appears complete or not at
/// all. Throws DataError if the group is of another kind or the file cannot be written.
void write_layout_npz(const std::filesystem::path& file, const Group& group);

/// Returns the codes of a candidate, [configurable], valid until the next call. Called in ascending order of
/// candidates.
using CandidateCodes = std::function<const uint8_t*(int64_t candidate)>;
/// Writes a layout group whose codes are computed on demand; ignores group.layout.codes.
void write_layout_npz(const std::filesystem::path& file, const Group& group, const CandidateCodes& codes);

/// Writes a tile group as a TpuGraphs `.npz` with the entries, types and orders of the published files. `runtimes` are
/// nanoseconds, and `normalizer` is their divisor. The file appears complete or not at all. Throws DataError if the
/// group is of another kind or the file cannot be written.
void write_tile_npz(const std::filesystem::path& file, const Group& group, const std::vector<int64_t>& runtimes,
                    int64_t normalizer);

/// Describes the conversion of one group.
struct HloConversion {
  std::string name;           // name of the group
  std::string skip_reason;    // reason for skipping the group; empty: converted
  std::filesystem::path out;  // path of the written file
  HloGroup converted;         // converted group without its arrays
};

struct HloConvertOptions {
  std::optional<HloMessage> message;  // overrides the message type found from the content
  HloLimits limits;
  bool force = false;  // replace files of any kind (base/output_target.h)
};

/// Writes the groups of an HLO protobuf file as TpuGraphs' .npz files: to `out` if that ends in .npz, which requires a
/// single group, otherwise each as NAME.npz into the folder `out`, which is created if needed. Only one module is in
/// memory at a time. Calls `done` after each group. Throws OutputRefused before anything is written, and DataError;
/// files written before stay.
void convert_hlo(const std::filesystem::path& in, const std::filesystem::path& out, const HloConvertOptions& options,
                 const std::function<void(const HloConversion&)>& done);

}  // namespace foretime::data
