#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/graphs/group.h"

namespace foretime::testing {

/// Writes a layout group as a TpuGraphs `.npz` with the entries, types and orders of the published files, complete or
/// not at all. Run times are rounded to whole nanoseconds. Memory grows by only a few bytes with each candidate.
/// Throws StorageError if the storage fails, and DataError for another kind or if the file cannot be written otherwise.
void write_layout_npz(const std::filesystem::path& file, const data::Group& group);

/// Returns the codes of a candidate, [configurable], valid until the next call; called for ascending candidates.
using CandidateCodes = std::function<const uint8_t*(int64_t candidate)>;
/// Writes a layout group as above, but takes the codes of each candidate from `codes`, not from group.layout.codes.
void write_layout_npz(const std::filesystem::path& file, const data::Group& group, const CandidateCodes& codes);

}  // namespace foretime::testing
