#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/frontends/tir/tir_unfold.h"

namespace foretime::data {

/// Packs the programs of files of save_json text into one collection, a group a workload (read_tir_groups): training,
/// evaluation and ranking then take them as any other. Returns the number of groups. Throws DataError for what cannot
/// be read, and for workloads of one name in two files.
int64_t pack_tir(const std::filesystem::path& out, const std::vector<std::filesystem::path>& files,
                 const std::string& member, const TirLimits& limits = {});

}  // namespace foretime::data
