#include "base/threads.h"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace foretime {

int64_t threads_to_use(int64_t asked, int64_t processes_on_host) {
  if (asked > 0) return asked;
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const auto share = std::max<int64_t>(1, cores / std::max<int64_t>(1, processes_on_host));
  cpu_set_t usable;
  CPU_ZERO(&usable);
  return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? std::min<int64_t>(share, CPU_COUNT(&usable)) : share;
}

}  // namespace foretime
