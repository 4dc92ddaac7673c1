#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/files/npz_reader.h"

/// Finds data that can be read but are probably a mistake.
namespace foretime::data {

/// Largest accepted run time in seconds: some tools mark failed programs by larger ones.
constexpr double kLongestRuntime = 1e9;

/// Returns warnings about run times in seconds: several are all equal, their median is above 1,000 s (another
/// unit?), or the longest is over a million times the median. Infinite ones do not count. Empty if nothing looks wrong.
std::vector<std::string> runtime_oddities(std::span<const double> runtimes);

/// Returns warnings about a file of measured programs: unknown names of node types, with the share of the nodes and the
/// nearest known name, run times (runtime_oddities), and repeated ids. Reads only these arrays. Throws DataError.
std::vector<std::string> program_oddities(const NpzReader& file);

/// Throws DataError if a file has loops and the types of all of them are unknown, so that trip counts would be lost.
void refuse_unknown_loops(const NpzReader& file);

}  // namespace foretime::data
