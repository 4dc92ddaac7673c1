#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/files/npz_reader.h"

/// What can be read, and yet is hardly what was meant.
namespace foretime::data {

/// Programs that failed are marked by such run times in some tools: above it, a run time in seconds is refused.
constexpr double kLongestRuntime = 1e9;

/// Lines about the run times of a group of programs, in seconds: that all are equal, so long that they may be
/// nanoseconds, or far above the others. Empty where nothing looks wrong.
std::vector<std::string> runtime_oddities(std::span<const double> runtimes);

/// Lines about a file of measured programs: names of node types that are not known, with their share of the nodes and
/// the nearest name that is, run times, and ids that occur twice. Reads a few small arrays. Throws DataError.
std::vector<std::string> program_oddities(const NpzReader& file);

/// Throws DataError where every loop of a file has a type that is not known, so that its trip count would mean nothing.
void refuse_unknown_loops(const NpzReader& file);

}  // namespace foretime::data
