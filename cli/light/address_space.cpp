#include "cli/light/address_space.h"

#include <algorithm>
#include <string_view>

#include <sched.h>
#include <sys/resource.h>

#include "base/numbers.h"

namespace foretime::cli {
namespace {

// Measured with Debian's OpenBLAS 0.3.21.
constexpr uint64_t kBlasBytesPerThread = uint64_t{128} << 20;
constexpr int kMostBlasThreads = 128;

/// Returns how many threads OpenBLAS starts before main: the first of its variables that is set says so, within the
/// cores that this process may use.
int blas_threads(char** environment) {
  cpu_set_t cores;
  const int usable = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : kMostBlasThreads;
  for (const std::string_view name : {"OPENBLAS_NUM_THREADS=", "GOTO_NUM_THREADS=", "OMP_NUM_THREADS="}) {
    for (char** variable = environment; variable != nullptr && *variable != nullptr; ++variable) {
      std::string_view text = *variable;
      if (!text.starts_with(name)) continue;
      text.remove_prefix(name.size());
      if (const int asked = take_number<int>(text).value_or(0); asked > 0)
        return std::min({asked, usable, kMostBlasThreads});
    }
  }
  return std::min(usable, kMostBlasThreads);
}

}  // namespace

uint64_t least_address_space(uint64_t program_bytes, char** environment) {
  return program_bytes + kBlasBytesPerThread * blas_threads(environment);
}

uint64_t address_space_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

}  // namespace foretime::cli
