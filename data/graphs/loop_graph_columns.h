#pragma once

#include <cstdint>

namespace foretime::data {

/// Node features of loop graphs (data/frontends/loops/loop_columns.h): all, and of these the last ones, which say what
/// machine a program runs on. They are no part of a candidate's configuration.
constexpr int64_t kLoopGraphColumns = 205, kMachineColumns = 12;

}  // namespace foretime::data
