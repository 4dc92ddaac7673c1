#pragma once

#include <cstdint>
#include <functional>

#include "base/no_copy.h"

namespace foretime {

/// Returns the number of threads for a process: `asked` if that is above 0, else the cores of the host divided by
/// `processes_on_host`, at least 1 and at most the CPUs that this process may run on (taskset, cpusets).
int64_t threads_to_use(int64_t asked, int64_t processes_on_host = 1);

/// Limits OpenMP and OpenBLAS to one thread for calls of the current thread, during the lifetime of the object.
class OneOpenMpThread : NoCopy {
 public:
  OneOpenMpThread();
  ~OneOpenMpThread();

 private:
  int before_;
};

/// Runs parts 0 … parts - 1 on `threads` threads, including the caller; each thread takes the next remaining part.
/// Returns when all parts are done. `worker` is called once in each thread and returns the function that runs a part,
/// so that the parts of a thread can share memory. If not enough threads can be started, fewer do the work. If `worker`
/// or a part throws, no further part is begun, and the exception of the part with the lowest number is rethrown.
void parallel_for(int64_t parts, int32_t threads, const std::function<std::function<void(int64_t part)>()>& worker);

}  // namespace foretime
