#pragma once

#include <cstdint>
#include <vector>

/// Measurement of the speed of a machine: two rates that limit most tensor programs.
namespace foretime {

/// Summarises the runs of one measurement.
struct RateSummary {
  double median = 0, low = 0, high = 0;
  double spread = 0;  // (high - low) / median
  int64_t runs = 0;
};
/// Summarises at least one rate; all must be above 0.
RateSummary summarize(std::vector<double> rates);

/// Returns the number of repetitions of a piece of work of `once` seconds that take `wanted` seconds; at least 1.
int64_t repetitions_for(double once, double wanted);

struct RateOptions {
  std::vector<int> cpus = {0};  // CPUs with one thread each, which run at once
  int64_t runs = 15;            // number of measurements of about `seconds`
  double seconds = 0.1;
  // bytes that each thread copies, several times the size of its last-level cache
  int64_t copy_bytes = int64_t{64} << 20;
};

/// Returns the float multiplications and additions per second (a multiply-add counts twice) of chains in registers,
/// with the widest vectors of the machine: the sum over all threads, one rate for each run.
std::vector<double> multiply_add_rates(const RateOptions& options);

/// Returns the bytes per second that memcpy reads and writes: the sum over all threads, one rate for each run. Throws
/// std::bad_alloc.
std::vector<double> copy_rates(const RateOptions& options);

/// Runs `rounds` rounds of the multiply-adds that multiply_add_rates measures, and puts their result into `sum`, so
/// that compilers do not remove them. Returns the number of floating-point operations.
double run_multiply_adds(int64_t rounds, float& sum);
/// Returns the value that `sum` must have, computed by the definition of the chains.
float multiply_adds_by_definition(int64_t rounds);

}  // namespace foretime
