#pragma once

#include <cstdint>

namespace foretime {

/// Threads that a process computes with: as many as were asked for; for 0 its share of the host's cores, where that is
/// more than the cores that it may run on (mpirun binds ranks, taskset and cgroups confine) those.
int64_t threads_to_use(int64_t asked, int64_t processes_on_host = 1);

}  // namespace foretime
