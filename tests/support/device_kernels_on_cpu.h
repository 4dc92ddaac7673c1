#pragma once

#include <cstdlib>
#include <memory>

#include "models/device/launch.h"

namespace foretime::testing {

/// With FORETIME_TEST_KERNELS in the environment, all tests of the binary go through what GPUs run (models/device).
inline const auto on_device_kernels =
    std::getenv("FORETIME_TEST_KERNELS") != nullptr ? std::make_unique<device::DeviceKernelsOnCpu>() : nullptr;

}  // namespace foretime::testing
