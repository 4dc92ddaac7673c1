#pragma once

#include <cstdint>
#include <span>

namespace foretime {

/// Returns Kendall's τ-b of two sequences of equal length with ties in either, in O(n log n) (W. R. Knight, "A computer
/// method for calculating Kendall's tau with ungrouped data", JASA 61, 1966). NaN if `b` is constant or has fewer than
/// two values, or if either holds a NaN; 0 if only `a` is constant. Throws DataError if the lengths differ.
double kendall_tau_b(std::span<const double> a, std::span<const double> b);

/// Returns the τ-b of an oracle that predicts each distinct configuration's mean run time: candidates of equal hash
/// differ by measurement noise alone, which limits every model. 1 if no configuration repeats; NaN if τ is NaN. Failed
/// candidates, of infinite run time, are left out.
double noise_ceiling_tau(std::span<const uint64_t> configuration_hashes, std::span<const double> runtimes);

}  // namespace foretime
