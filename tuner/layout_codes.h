#pragma once

#include <cstdint>
#include <span>

#include "data/group.h"

namespace foretime::tuner {

/// Layouts [candidates, configurable, 18] of the configurable nodes `nodes` as tables of distinct rows and codes, in
/// the order in which rows first appear (data::LayoutCoder does the same for files). Throws data::DataError for a
/// node's 257th distinct row.
data::LayoutCandidates code_layouts(data::Array<int32_t> nodes, std::span<const int8_t> layouts, int64_t candidates);

}  // namespace foretime::tuner
