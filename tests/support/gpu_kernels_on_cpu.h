#pragma once

#include <cstdlib>
#include <memory>

#include "models/gpu/launch.h"

namespace foretime::testing {

/// With FORETIME_TEST_KERNELS in the environment, all tests of the binary go through what GPUs run (models/gpu).
inline const auto on_gpu_kernels =
    std::getenv("FORETIME_TEST_KERNELS") != nullptr ? std::make_unique<gpu::GpuKernelsOnCpu>() : nullptr;

}  // namespace foretime::testing
