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

/// Writes a layout group as a TpuGraphs `.npz` with the entries, types and orders of the published files, complete or
/// not at all. Run times are rounded to whole nanoseconds. Memory grows by only a few bytes with each candidate.
/// Throws StorageError if the storage fails, and DataError for another kind or if the file cannot be written otherwise.
void write_layout_npz(const std::filesystem::path& file, const Group& group);

/// Returns the codes of a candidate, [configurable], valid until the next call; called for ascending candidates.
using CandidateCodes = std::function<const uint8_t*(int64_t candidate)>;
/// Writes a layout group as above, but takes the codes of each candidate from `codes`, not from group.layout.codes.
void write_layout_npz(const std::filesystem::path& file, const Group& group, const CandidateCodes& codes);

/// Writes a tile group as a TpuGraphs `.npz` with the entries, types and orders of the published files, complete or not
/// at all. Its run times are `runtimes`, [candidates] in nanoseconds, not group.runtimes; the one `normalizer` is
/// stored for every candidate. Throws the errors of write_layout_npz.
void write_tile_npz(const std::filesystem::path& file, const Group& group, const std::vector<int64_t>& runtimes,
                    int64_t normalizer);

/// Describes the conversion of one group.
struct HloConversion {
  std::string name;           // name of the group
  std::string skip_reason;    // reason for skipping the group; empty: converted
  std::filesystem::path out;  // path of the written file; empty if the group was skipped
  HloGroup converted;         // the written group; empty if it was skipped
};

struct HloConvertOptions {
  std::optional<HloMessage> message;  // overrides the message type found from the content
  HloLimits limits;
  bool force = false;  // replace files of any kind (base/output_target.h)
};

/// Writes the groups of an HLO file as TpuGraphs' .npz files: to `out` if `out` ends in .npz, which requires a single
/// group, otherwise each as NAME.npz into the folder `out`, which is created if needed. Only one module is in memory at
/// a time. Calls `done` after each group, also a skipped one. Before anything is written, throws OutputRefused for a
/// file that must not be replaced, and DataError for several groups and one .npz, and for groups of the same name.
/// Throws DataError or StorageError if reading or writing fails; files written before stay.
void convert_hlo(const std::filesystem::path& in, const std::filesystem::path& out, const HloConvertOptions& options,
                 const std::function<void(const HloConversion&)>& done);

}  // namespace foretime::data
