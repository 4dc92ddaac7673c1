#include "worker/run/launch.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "base/error.h"
#include "base/message.h"
#include "base/threads.h"
#include "comm/backends/factory.h"
#include "configs/load.h"

namespace foretime::worker {
namespace {

constexpr std::chrono::seconds kLinger{10};  // mpirun ends the wait when the rank that failed has gone

/// LibTorch 2.2 and later fill every new tensor in deterministic mode, a kernel each. Ours are written before they are
/// read.
template <class Context>
void leave_new_tensors_as_they_are(Context& context) {
  if constexpr (requires { context.setDeterministicFillUninitializedMemory(false); })
    context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace

void with_communicator(const configs::CommSettings& settings, const RankResources& resources,
                       const std::function<void(comm::Communicator&)>& body) {
  const auto comm = comm::make_communicator({settings.backend, std::chrono::duration<double>(settings.timeout_seconds),
                                             resources.device != configs::Device::cpu});
  torch::set_num_threads(threads_to_use(resources.threads, comm->local_size()));
  try {
    body(*comm);
    comm->finish();
  } catch (const comm::RemoteError& error) {
    // The rank that failed reports the reason. Its exit code arrives first if the others linger.
    std::this_thread::sleep_for(kLinger);
    throw ReportedError(error.exit_code(), error.what());
  } catch (const std::exception& error) {
    if (is_broken_pipe(error)) {
      comm->abort("nobody reads standard output any more");
      throw;  // main ends quietly
    }
    // Printed before the group ends: mpirun kills the ranks that are left as soon as one has gone.
    const auto text = text_of_error(error);
    if (comm->announce_failure(text)) {
      const auto rank = fmt::format("rank {}: ", comm->rank());
      print_message("foretime: {}{}\n", comm->size() == 1 || text.starts_with(rank) ? "" : rank, text);
    }
    comm->abort(text);
    throw ReportedError(exit_code_of(error), text);
  }
}

void make_deterministic() {
  constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";
  // The two values under which cuBLAS promises the same results with several streams.
  setenv(kWorkspace, ":4096:8", 0);
  const std::string workspace = std::getenv(kWorkspace);
  if (workspace != ":4096:8" && workspace != ":16:8")
    throw configs::SettingsError(
        "trainer.deterministic: the environment's {} is '{}', expected :4096:8 or :16:8; unset it", kWorkspace,
        workspace);
  // NCCL chooses by measured speeds otherwise. What the user has set is as fixed.
  setenv("NCCL_ALGO", "Ring", 0);
  setenv("NCCL_PROTO", "Simple", 0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  leave_new_tensors_as_they_are(context);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

}  // namespace foretime::worker
