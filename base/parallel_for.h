#pragma once

#include <cstdint>
#include <functional>

namespace foretime {

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

/// Deals parts 0 … parts - 1 to `threads` threads, the caller among them, which take one after another; returns when
/// all are done and the threads have ended. `worker` is called once in each thread and gives what does a part, so it is
/// the place for memory that parts share. Where threads cannot be started fewer do the work. What the first part (by
/// its number) to fail has thrown is thrown again; no part is begun after a failure was seen.
void deal(int64_t parts, int32_t threads, const std::function<std::function<void(int64_t part)>()>& worker);

}  // namespace foretime
