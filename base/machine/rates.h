#pragma once

#include <cstdint>
#include <vector>

/// Measurement of the speed of a machine: two rates that limit most tensor programs.
namespace foretime {

/// Summarises the rates that the runs of one measurement found.
struct RateSummary {
  double median = 0, low = 0, high = 0;  // low and high: smallest and largest rate, in the unit of the rates
  double spread = 0;                     // (high - low) / median
  int64_t runs = 0;                      // number of rates
};
/// Summarises `rates`: one or more, all above 0.
RateSummary summarize(std::vector<double> rates);

/// Returns how often work of `once` seconds must be repeated to take `wanted` seconds: 1 to 1e9.
int64_t repetitions_for(double once, double wanted);

struct RateOptions {
  std::vector<int> cpus = {0};  // numbers of the CPUs; each runs one thread, all at the same time
  int64_t runs = 15;            // number of rates to measure
  double seconds = 0.1;         // approximate duration of one run
  // bytes that each thread copies, several times the size of its last-level cache
  int64_t copy_bytes = int64_t{64} << 20;
};

/// Measures float multiplications and additions per second (a multiply-add counts twice) in the widest vector registers
/// (x86-64) or 16-byte ones. Returns one rate for each run: the sum over all threads.
std::vector<double> multiply_add_rates(const RateOptions& options);

/// Measures the bytes per second that memcpy reads and writes together. Returns one rate for each run: the sum over all
/// threads. Throws std::bad_alloc.
std::vector<double> copy_rates(const RateOptions& options);

/// Runs `rounds` rounds of the multiply-adds that multiply_add_rates measures, and sets `sum` to the sum of their
/// results. Returns the number of floating-point operations.
double run_multiply_adds(int64_t rounds, float& sum);
/// Returns the `sum` that run_multiply_adds must give for `rounds` rounds, computed without vectors, for tests.
float multiply_adds_by_definition(int64_t rounds);

}  // namespace foretime
