#pragma once

#include <cstdint>
#include <vector>

/// How fast a machine is: two rates that bound most tensor programs.
namespace foretime {

/// Runs of one measurement.
struct RateSummary {
  double median = 0, low = 0, high = 0;
  double spread = 0;  // (high - low) / median
  int64_t runs = 0;
};
/// At least one rate, all above 0.
RateSummary summarize(std::vector<double> rates);

/// How often a piece of work that takes `once` seconds is done so that it takes `wanted`; at least once.
int64_t repetitions_for(double once, double wanted);

struct RateOptions {
  std::vector<int> cpus = {0};  // one thread on each, all at once
  int64_t runs = 15;            // of which each takes about `seconds`
  double seconds = 0.1;
  int64_t copy_bytes = int64_t{64} << 20;  // of what each thread copies; should be several times its last cache
};

/// Multiplications and additions of floats a second (a multiply-add is two of them) of chains that depend on nothing
/// but registers, by the widest vectors that the machine has: all threads together, a rate a run.
std::vector<double> multiply_add_rates(const RateOptions& options);

/// Bytes a second that memcpy reads and writes: all threads together, a rate a run. Throws std::bad_alloc.
std::vector<double> copy_rates(const RateOptions& options);

/// The multiply-adds of `rounds` rounds in the chains that multiply_add_rates measures, whose values `sum` has so that
/// no compiler leaves them out. Returns how many floating-point operations these were.
double run_multiply_adds(int64_t rounds, float& sum);
/// What `sum` must be, by the definition of the chains.
float multiply_adds_by_definition(int64_t rounds);

}  // namespace foretime
