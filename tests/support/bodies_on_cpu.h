#pragma once

#include <cstdlib>
#include <memory>

#include "models/device/launch.h"

namespace foretime::testing {

/// With FORETIME_TEST_BODIES in the environment, all tests of the binary go through what GPUs run (models/device).
inline const auto through_bodies =
    std::getenv("FORETIME_TEST_BODIES") != nullptr ? std::make_unique<device::BodiesOnCpu>() : nullptr;

}  // namespace foretime::testing
