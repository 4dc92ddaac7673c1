#include "cli/version/build_info.h"

#include <fmt/format.h>
#include <mpi.h>
#if FORETIME_NCCL_HEADER
#include <nccl.h>
#endif

namespace foretime::cli {
namespace {

std::string mpi_text() {
#ifdef OMPI_MAJOR_VERSION
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
  return "MPICH " MPICH_VERSION;
#else
  return fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
}

std::string nccl_text() {
#if FORETIME_NCCL_HEADER
  return fmt::format("NCCL {}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
#else
  return "no NCCL";
#endif
}

}  // namespace

std::string version_text() { return FORETIME_VERSION; }

std::string build_text(std::string_view commit) {
  return fmt::format("foretime {}\ncommit {}\nLibTorch {}, {}, {}; {}", FORETIME_VERSION, commit,
                     FORETIME_TORCH_VERSION, mpi_text(), nccl_text(), FORETIME_COMPILER);
}

}  // namespace foretime::cli
