#pragma once

#include <cstdint>

namespace foretime::data {

/// Count the node features of loop graphs (data/frontends/loops/loop_columns.h): all columns on CPUs, the last of them
/// that describe the machine, and all columns on GPUs. Machine columns are not part of a candidate's configuration;
/// neither are the additional GPU columns, which follow from the others and the machine.
constexpr int64_t kLoopGraphColumns = 205, kMachineColumns = 12, kGpuGraphColumns = 263;

}  // namespace foretime::data
