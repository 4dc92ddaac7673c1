#pragma once

#include <cstdlib>
#include <memory>

#include "models/gpu/launch.h"

namespace foretime::testing {

/// Makes all tests of the binary run the kernels of GPUs on the CPU (models/gpu) if FORETIME_TEST_KERNELS is set.
inline const auto on_gpu_kernels =
    std::getenv("FORETIME_TEST_KERNELS") != nullptr ? std::make_unique<gpu::GpuKernelsOnCpu>() : nullptr;

}  // namespace foretime::testing
