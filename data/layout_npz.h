#pragma once

#include <filesystem>

#include "data/group.h"

namespace foretime::data {

/// Writes a layout group as a TpuGraphs `.npz` with the members, types and orders of the published files.
/// node_config_feat is expanded from the codes while it is compressed, so memory stays bounded whatever its size.
/// Throws DataError where the group is of another kind or the file cannot be written; a file is complete or not there.
void write_layout_npz(const std::filesystem::path& file, const Group& group);

}  // namespace foretime::data
