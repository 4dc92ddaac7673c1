#pragma once

#include "data/graphs/group.h"
#include "metrics/metric_table.h"

namespace foretime::data {

/// Returns the contest of TpuGraphs that groups of kind `kind` belong to; none for programs.
constexpr metrics::Contest contest_of(CandidateKind kind) {
  return kind == CandidateKind::layout ? metrics::Contest::layout
         : kind == CandidateKind::tile ? metrics::Contest::tile
                                       : metrics::Contest::none;
}

}  // namespace foretime::data
