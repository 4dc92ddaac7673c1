#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include <omp.h>
#include <sched.h>

namespace foretime {

int64_t threads_to_use(int64_t asked, int64_t processes_on_host) {
  if (asked > 0) return asked;
  const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const auto share = std::max<int64_t>(1, cores / std::max<int64_t>(1, processes_on_host));
  cpu_set_t usable;
  CPU_ZERO(&usable);
  return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? std::min<int64_t>(share, CPU_COUNT(&usable)) : share;
}

OneOpenMpThread::OneOpenMpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneOpenMpThread::~OneOpenMpThread() { omp_set_num_threads(before_); }

void parallel_for(int64_t parts, int32_t threads, const std::function<std::function<void(int64_t part)>()>& worker) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  int64_t failed_part = std::numeric_limits<int64_t>::max();
  const auto run = [&] {
    const OneOpenMpThread guard;
    int64_t part = 0;
    try {
      const auto work = worker();
      while ((part = next.fetch_add(1)) < parts) work(part);
    } catch (...) {
      next = parts;  // other threads finish their parts, one of which may have a lower number
      const std::lock_guard lock(mutex);
      if (part >= failed_part) return;
      failed_part = part;
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  const auto wanted = std::min<int64_t>(threads, parts) - 1;
  try {
    for (int64_t i = 0; i < wanted; ++i) others.emplace_back(run);
  } catch (const std::exception&) {
    // std::system_error or std::bad_alloc: the threads that are there do the work
  }
  run();
  for (auto& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace foretime
