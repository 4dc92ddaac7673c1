#pragma once

#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {

/// Returns the least time of one iteration of a statement on the busiest core, in nanoseconds, above 0: the largest of
/// the times for its arithmetic at the rate of multiply-adds, for its accesses at two a cycle, and for each cache's
/// traffic at that cache's rate (the roofline model of Williams, Waterman and Patterson, Communications of the ACM
/// 52(4), 2009, with a roof for each level as in Ilic, Pratas and Sousa, IEEE Computer Architecture Letters 13(1),
/// 2014). Data that fit into a cache are assumed to be there already: measurements repeat a program. `machine` is the
/// hardware that `shape` was made with, with all rates set (with_rates).
double roofline(const StatementShape& shape, const Hardware& machine);

}  // namespace foretime::data
