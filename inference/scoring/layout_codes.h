#pragma once

#include <cstdint>
#include <span>

#include "data/graphs/group.h"

namespace foretime::inference {

/// The first of a call's candidates, as many as codes of a byte can tell apart.
struct CodedLayouts {
  data::LayoutCandidates layout;
  int64_t candidates = 0;
  int64_t full =
      -1;  // index of the node that has 256 distinct rows and, in the next candidate, another; -1: all are coded
};

/// Layouts [candidates, configurable, 18] of the configurable nodes `nodes` as tables of distinct rows and codes, in
/// the order in which rows first appear (data::LayoutCoder does the same for files).
CodedLayouts code_layouts(Array<int32_t> nodes, std::span<const int8_t> layouts, int64_t candidates);

}  // namespace foretime::inference
