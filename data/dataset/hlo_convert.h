#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/frontends/hlo/hlo_groups.h"

namespace foretime::data {

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
};

/// Writes the groups of an HLO protobuf file as TpuGraphs' .npz files: to `out` where that ends in .npz, which must
/// then be one group, else each as NAME.npz into the folder `out`, which is made if it is not there. One module is in
/// memory at a time. `done` is told of each. Throws DataError; what was written before stays.
void convert_hlo(const std::filesystem::path& in, const std::filesystem::path& out, const HloConvertOptions& options,
                 const std::function<void(const HloConversion&)>& done);

}  // namespace foretime::data
