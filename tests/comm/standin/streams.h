#pragma once

#include <functional>
#include <random>
#include <set>
#include <string>

#include "tests/comm/standin/cuda_runtime.h"

/// Inside of the stand-ins. Environment variables choose what they do:
///   FORETIME_STANDIN_VIEW    all: a process sees as many GPUs as there are ranks on its host (default); own: one, its
///                            own; shared: one, the same for all; none
///   FORETIME_STANDIN_JITTER  µs that each stream pauses at most before each piece of work (200)
///   FORETIME_STANDIN_SEED    of all random choices (1)
///   FORETIME_STANDIN_FAULT   slow:RANK (NCCL's kernels of that rank pause 50 ms), error:RANK (an asynchronous error
///                            there after five collectives), stuck_abort (ncclCommAbort never returns)
///
/// ThreadSanitizer takes two accesses for ordered where the program synchronises the threads. A stream must therefore
/// learn from its callers, and they nothing of it but through events and queries: else a missing event would hide.
namespace foretime::standin {

/// The variable's value, or `otherwise`.
std::string setting(const char* name, const std::string& otherwise);
int local_rank();
/// A generator of this process's own, for one `user`.
std::mt19937 generator(uint32_t user);

/// `work` runs on the stream's thread, after all that was enqueued before. False where the stream has been destroyed.
/// `work` may own nothing that others count references of: that would order threads as well.
bool enqueue(cudaStream_t stream, std::function<void()> work);

/// GPUs that threads of this process have made current by a call since the last question: each has a context then.
std::set<int> gpus_made_current();
/// Of all streams that were made so far, the highest priority (the lowest number).
int highest_priority();

/// The stream that LibTorch's operations on GPU `gpu` go to on this thread: one of the process for all threads, unless
/// torch_on_stream has put another in its place.
cudaStream_t compute_stream(int gpu);
/// Sets it for this thread; null: the process's. Returns what was set before.
cudaStream_t set_compute_stream(cudaStream_t stream);

}  // namespace foretime::standin
