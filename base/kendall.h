#pragma once

#include <cstdint>
#include <span>

namespace foretime {

/// Returns Kendall's τ-b of two sequences of equal length with ties in either, in O(n log n) (W. R. Knight, "A computer
/// method for calculating Kendall's tau with ungrouped data", JASA 61, 1966). NaN if `b` is constant or has fewer than
/// two values, or if either holds a NaN; 0 if only `a` is constant. Throws DataError if the lengths differ.
double kendall_tau_b(std::span<const double> a, std::span<const double> b);

/// Returns the τ-b of an oracle that predicts the mean run time of each configuration: candidates of equal hash differ
/// only by measurement noise. Candidates that failed (infinite run time) are left out. NaN if fewer than two are left
/// or their run times are all equal; else 1 if no configuration repeats. Throws DataError if the lengths differ.
double noise_ceiling_tau(std::span<const uint64_t> configuration_hashes, std::span<const double> runtimes);

}  // namespace foretime
