#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/files/npz_reader.h"

/// Finds data that can be read but are probably a mistake.
namespace foretime::data {

/// Bounds run times in seconds: some tools mark failed programs by larger ones, which are refused.
constexpr double kLongestRuntime = 1e9;

/// Returns warnings about the run times of a group of programs, in seconds: all are equal, they may be nanoseconds, or
/// one is far above the others. Empty if nothing looks wrong.
std::vector<std::string> runtime_oddities(std::span<const double> runtimes);

/// Returns warnings about a file of measured programs: unknown names of node types, with their share of the nodes and
/// the nearest known name, run times, and repeated ids. Reads only a few small arrays. Throws DataError.
std::vector<std::string> program_oddities(const NpzReader& file);

/// Throws DataError if every loop of a file has an unknown type, so that its trip count would be lost.
void refuse_unknown_loops(const NpzReader& file);

}  // namespace foretime::data
