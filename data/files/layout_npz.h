#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

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

}  // namespace foretime::data
