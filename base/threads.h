#pragma once

#include <cstdint>
#include <functional>

namespace foretime {

/// Threads that a process computes with: as many as were asked for; for 0 its share of the host's cores, where that is
/// more than the cores that it may run on (mpirun binds ranks, taskset and cgroups confine) those.
int64_t threads_to_use(int64_t asked, int64_t processes_on_host = 1);

/// OpenMP and OpenBLAS use one thread for what this thread calls, as long as this object lives.
class OneOpenMpThread {
 public:
  OneOpenMpThread();
  ~OneOpenMpThread();
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

/// Runs parts 0 … parts - 1 on `threads` threads, the caller among them; each thread takes the next part that is left.
/// Returns when all parts are done and the threads have ended. `worker` is called once in each thread and returns the
/// function that does a part, so it can hold memory that the parts of a thread share. Fewer threads do the work where
/// no more can be started. If parts throw, no further part is begun, and the exception of the first of them by number
/// is thrown again.
void parallel_for(int64_t parts, int32_t threads, const std::function<std::function<void(int64_t part)>()>& worker);

}  // namespace foretime
