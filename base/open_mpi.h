#pragma once

#include <array>

namespace foretime {

/// The variables that Open MPI's mpirun wants with the value 1 before it starts as root, as in containers.
inline constexpr std::array<const char*, 2> kMpiRootVariables = {"OMPI_ALLOW_RUN_AS_ROOT",
                                                                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"};

}  // namespace foretime
