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

/// Writes a layout group as a TpuGraphs `.npz` with the entries, types and orders of the published files.
/// node_config_feat is expanded from the codes while it is compressed, so memory stays bounded whatever its size.
/// Throws DataError where the group is of another kind or the file cannot be written; a file is complete or not there.
void write_layout_npz(const std::filesystem::path& file, const Group& group);

/// The codes of a candidate, [configurable]; valid until the next call. Candidates are asked for in ascending order.
using CandidateCodes = std::function<const uint8_t*(int64_t candidate)>;
/// Writes a layout group whose codes are made as they are needed; group.layout.codes is not looked at.
void write_layout_npz(const std::filesystem::path& file, const Group& group, const CandidateCodes& codes);

/// Writes a tile group as a TpuGraphs `.npz` with the entries, types and orders of the published files. `runtimes` are
/// nanoseconds, and `normalizer` is what they are divided by. Throws DataError where the group is of another kind or
/// the file cannot be written; a file is complete or not there.
void write_tile_npz(const std::filesystem::path& file, const Group& group, const std::vector<int64_t>& runtimes,
                    int64_t normalizer);

struct HloConversion {
  std::string name;           // of the group
  std::string left_out;       // why it was left out; empty where it was not
  std::filesystem::path out;  // what was written
  HloGroup what;              // with its arrays
};

struct HloConvertOptions {
  std::optional<HloMessage> message;  // known better than by the file's content
  HloLimits limits;
  bool force = false;  // replace files of any kind (base/output_target.h)
};

/// Writes the groups of an HLO protobuf file as TpuGraphs' .npz files: to `out` where that ends in .npz, which must
/// then be one group, else each as NAME.npz into the folder `out`, which is made if it is not there. One module is in
/// memory at a time. `done` is told of each. Throws OutputRefused before anything is written, and DataError; what was
/// written before stays.
void convert_hlo(const std::filesystem::path& in, const std::filesystem::path& out, const HloConvertOptions& options,
                 const std::function<void(const HloConversion&)>& done);

}  // namespace foretime::data
