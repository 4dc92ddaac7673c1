#pragma once

#include <cstdint>
#include <span>

namespace foretime {

/// Kendall's τ-b of two sequences of equal length with ties in either, in O(n log n) (W. R. Knight, "A computer method
/// for calculating Kendall's tau with ungrouped data", JASA 61, 1966). NaN where `b` is constant or has fewer than two
/// values, or where either holds a NaN; 0 where only `a` is constant. Throws DataError where the lengths differ.
double kendall_tau_b(std::span<const double> a, std::span<const double> b);

/// τ-b that an oracle reaches which predicts each distinct configuration's mean run time: candidates of equal hash
/// differ by measurement noise alone, which bounds every model. 1 where no configuration repeats; NaN where τ is
/// (above). Candidates of infinite run time, which failed, are left out.
double noise_ceiling_tau(std::span<const uint64_t> configuration_hashes, std::span<const double> runtimes);

}  // namespace foretime
