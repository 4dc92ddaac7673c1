#include "worker/run/launch.h"

#include <cstdio>

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/threads.h"
#include "comm/agree.h"
#include "comm/backends/factory.h"
#include "coordinator/run_directory.h"

namespace foretime::worker {

void with_communicator(const configs::CommSettings& settings, int64_t threads,
                       const std::function<void(comm::Communicator&)>& body) {
  const auto comm =
      comm::make_communicator({settings.backend, std::chrono::duration<double>(settings.timeout_seconds)});
  torch::set_num_threads(static_cast<int>(threads_to_use(threads, comm->local_size())));
  try {
    body(*comm);
    comm->finish();
  } catch (const std::exception& error) {
    // Printed before the group ends: mpirun kills the ranks that are left as soon as one has gone.
    fmt::print(stderr, "foretime: {}\n", error.what());
    std::fflush(stderr);
    comm->abort(error.what());
    throw ReportedError(exit_code_of(error), error.what());
  }
}

std::shared_ptr<spdlog::logger> rank_logger(const comm::Communicator& comm, const std::string& file) {
  const bool root = comm.rank() == 0;
  return coordinator::make_logger(root ? file : "", root ? spdlog::level::info : spdlog::level::warn);
}

}  // namespace foretime::worker
