#include "cli/launch.h"

#include <algorithm>
#include <thread>

#include <torch/torch.h>

#include "coordinator/run_directory.h"

namespace foretime::cli {

void with_communicator(const configs::CommSettings& settings, int64_t threads, const std::function<void(comm::Communicator&)>& body) {
  const auto comm = comm::make_communicator({settings.backend, std::chrono::duration<double>(settings.timeout_seconds)});
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  torch::set_num_threads(static_cast<int>(threads > 0 ? threads : std::max<int64_t>(1, cores / comm->local_size())));
  try {
    body(*comm);
  } catch (const std::exception& error) {
    comm->abort(error.what());
    throw;
  }
}

std::shared_ptr<spdlog::logger> rank_logger(const comm::Communicator& comm, const std::string& file) {
  const bool root = comm.rank() == 0;
  return coordinator::make_logger(root ? file : "", root ? spdlog::level::info : spdlog::level::warn);
}

}  // namespace foretime::cli
