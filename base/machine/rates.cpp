#include "base/machine/rates.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include <sched.h>

namespace foretime {
namespace {

// a = a x + y in each lane of each chain. It runs towards y / (1 - x) = 2, far from denormal numbers.
constexpr float kFactor = 0.5F, kTerm = 1.0F;
constexpr int kChains = 12;  // enough for a latency of four cycles and two units, and they fit into 16 registers
constexpr int64_t kRoundsOnce = 1 << 14;

float first_value(int chain, int lane) { return chain + 0.125F * lane; }

/// A function of `kChains` chains of vectors of BYTES bytes.
#define FORETIME_CHAINS(name, bytes, ...)                                                                 \
  __VA_ARGS__ float name(int64_t rounds) {                                                                \
    typedef float Vector __attribute__((vector_size(bytes)));                                             \
    constexpr int kLanes = (bytes) / 4;                                                                   \
    Vector x, y, a[kChains];                                                                              \
    for (int lane = 0; lane < kLanes; ++lane) {                                                           \
      x[lane] = kFactor;                                                                                  \
      y[lane] = kTerm;                                                                                    \
      for (int chain = 0; chain < kChains; ++chain) a[chain][lane] = first_value(chain, lane);            \
    }                                                                                                     \
    for (int64_t round = 0; round < rounds; ++round) {                                                    \
      _Pragma("GCC unroll 12") for (int chain = 0; chain < kChains; ++chain) a[chain] = a[chain] * x + y; \
    }                                                                                                     \
    float sum = 0;                                                                                        \
    for (int chain = 0; chain < kChains; ++chain)                                                         \
      for (int lane = 0; lane < kLanes; ++lane) sum += a[chain][lane];                                    \
    return sum;                                                                                           \
  }

struct Chains {
  float (*run)(int64_t rounds) = nullptr;
  int lanes = 4;
};

FORETIME_CHAINS(chains_16, 16, )
#if defined(__x86_64__)
FORETIME_CHAINS(chains_32, 32, __attribute__((target("avx2,fma"))))
FORETIME_CHAINS(chains_64, 64, __attribute__((target("avx512f"))))
#endif

Chains widest_chains() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {chains_64, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {chains_32, 8};
#endif
  return {chains_16, 4};
}

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);  // on failure the thread may run on any CPU
}

/// One thread's work: done `times` times.
using Work = std::function<void(int64_t times)>;

/// `make` makes the work of each thread in that thread, whose memory is then near; `amount`: of what is counted, of one
/// thread that does its work once.
std::vector<double> rates_of(const RateOptions& options, double amount, const std::function<Work()>& make) {
  const auto threads = std::ssize(options.cpus);
  std::barrier together(threads);
  std::vector<Clock::time_point> begins(options.cpus.size()), ends(options.cpus.size());
  std::vector<double> rates;
  std::atomic<int64_t> times = 1;
  std::atomic<bool> failed = false;
  const auto run_thread = [&](size_t thread) {
    stay_on(options.cpus[thread]);
    Work work;
    try {
      work = make();
      work(1);  // pages are there, caches and clock warm
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    together.arrive_and_wait();
    if (failed) return;
    if (thread == 0) times = repetitions_for(seconds_of([&] { work(1); }), options.seconds);
    for (int64_t run = 0; run < options.runs; ++run) {
      together.arrive_and_wait();
      begins[thread] = Clock::now();
      work(times);
      ends[thread] = Clock::now();
      together.arrive_and_wait();
      if (thread != 0) continue;
      const auto begin = *std::ranges::min_element(begins), end = *std::ranges::max_element(ends);
      rates.push_back(amount * times * threads / std::chrono::duration<double>(end - begin).count());
    }
  };
  std::vector<std::jthread> running;
  for (size_t thread = 0; thread < options.cpus.size(); ++thread) running.emplace_back(run_thread, thread);
  running.clear();
  if (failed) throw std::bad_alloc();
  return rates;
}

}  // namespace

RateSummary summarize(std::vector<double> rates) {
  std::ranges::sort(rates);
  const size_t count = rates.size(), middle = count / 2;
  RateSummary summary{.low = rates.front(), .high = rates.back(), .runs = std::ssize(rates)};
  summary.median = count % 2 == 1 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2;
  summary.spread = (summary.high - summary.low) / summary.median;
  return summary;
}

int64_t repetitions_for(double once, double wanted) {
  constexpr double kMost = 1e9, kShortest = 1e-9;  // a clock may have seen no time at all
  return std::clamp(std::ceil(wanted / std::max(once, kShortest)), 1.0, kMost);
}

double run_multiply_adds(int64_t rounds, float& sum) {
  const auto chains = widest_chains();
  sum = chains.run(rounds);
  return 2.0 * kChains * chains.lanes * rounds;
}

float multiply_adds_by_definition(int64_t rounds) {
  float sum = 0;
  for (int chain = 0; chain < kChains; ++chain) {
    for (int lane = 0; lane < widest_chains().lanes; ++lane) {
      float value = first_value(chain, lane);
      for (int64_t round = 0; round < rounds; ++round) value = value * kFactor + kTerm;
      sum += value;
    }
  }
  return sum;
}

std::vector<double> multiply_add_rates(const RateOptions& options) {
  const double operations = 2.0 * kChains * widest_chains().lanes * kRoundsOnce;
  return rates_of(options, operations, [] {
    return [](int64_t times) {
      volatile float kept = 0;
      for (int64_t i = 0; i < times; ++i) {
        float sum = 0;
        run_multiply_adds(kRoundsOnce, sum);
        kept = sum;
      }
      (void)kept;
    };
  });
}

std::vector<double> copy_rates(const RateOptions& options) {
  const size_t bytes = options.copy_bytes;
  return rates_of(options, 2.0 * bytes, [bytes] {
    const std::shared_ptr<std::byte[]> from(new std::byte[bytes]), to(new std::byte[bytes]);
    std::memset(from.get(), 1, bytes);
    return [from, to, bytes](int64_t times) {
      for (int64_t i = 0; i < times; ++i) {
        std::memcpy(to.get(), from.get(), bytes);
        asm volatile("" : : "r"(to.get()) : "memory");  // somebody may read it: no copy is left out
      }
    };
  });
}

}  // namespace foretime
