#pragma once

#include "tests/acceptance/place.h"
#include "tests/acceptance/rows.h"

/// What the acceptance program checks and measures, each in a process of its own.
namespace foretime::acceptance {

/// Versions, the GPU, the communicator's backends.
void check_facts(const Options& options, Rows& rows);
/// Our kernels where they are the first use of the device on a thread.
void check_context(const Options& options, Rows& rows);
/// Every variant of a model (tests/models/small_models.h): scores and gradients of the device against the CPU's
/// kernels, twice the same bits, bfloat16 near float32.
void check_models(const Options& options, Rows& rows);
/// One step of every workload: loss, gradients and the optimiser's update; repeated; in bfloat16.
void check_steps(const Options& options, Rows& rows);
/// 50 steps on the CPU and on the device, and each run's checkpoint of step 25 continued on the other.
void check_trainings(const Options& options, Rows& rows);
/// Milliseconds, launches, waits and bytes of a step on the CPU and on the device; memory.
void measure_steps(const Options& options, Rows& rows);
/// Bytes a second of sparse sums beside those of a copy.
void measure_sums(const Options& options, Rows& rows);
/// Under mpirun: two ranks, which share the GPU where there is one, train as one does.
void check_ranks(const Options& options, Rows& rows);
/// Under mpirun: NCCL refuses two ranks on one GPU, and says why.
void check_nccl_refusal(const Options& options, Rows& rows);
/// NCCL with one rank, asked for what one rank could leave out: buckets, stages, sums in bfloat16.
void check_nccl_alone(const Options& options, Rows& rows);
/// Three steps of each kind of kernel: for compute-sanitizer.
void take_three_steps(const Options& options, Rows& rows);

}  // namespace foretime::acceptance
