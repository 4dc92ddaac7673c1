#pragma once

#include <cstdint>

namespace foretime::data {

/// Node features of loop graphs (data/frontends/loops/loop_columns.h): all, and of these the last ones, which say what
/// machine a program runs on. They are no part of a candidate's configuration. Neither are those that programs for GPUs
/// have besides, which follow from the others and the machine.
constexpr int64_t kLoopGraphColumns = 205, kMachineColumns = 12, kGpuGraphColumns = 263;

}  // namespace foretime::data
