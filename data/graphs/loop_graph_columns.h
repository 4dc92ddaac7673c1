#pragma once

#include <cstdint>

namespace foretime::data {

/// Numbers of node features of loop graphs (data/frontends/loops/loop_columns.h): kLoopGraphColumns on CPUs, the last
/// kMachineColumns of which describe the machine; kGpuGraphColumns on GPUs, which are these and further columns. The
/// machine's and the further columns, which follow from the others, are not part of a configuration.
constexpr int64_t kLoopGraphColumns = 205, kMachineColumns = 12, kGpuGraphColumns = 263;

}  // namespace foretime::data
