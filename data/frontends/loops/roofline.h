#pragma once

#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {

/// The least time of one iteration of a statement on the busiest core, in nanoseconds: the largest of what its
/// arithmetic takes at the rate of multiply-adds, its accesses at two a cycle, and its lines, each cache's traffic at
/// that cache's rate (the roofline model of Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009,
/// with a roof for each level as Ilic, Pratas and Sousa have, IEEE Computer Architecture Letters 13(1), 2014). What
/// fits into a cache is taken to be there already: measurements repeat a program. `machine`: that of the
/// shape, with rates (with_rates). Above 0.
double roofline(const StatementShape& shape, const Hardware& machine);

}  // namespace foretime::data
