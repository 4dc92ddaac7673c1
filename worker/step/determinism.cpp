#include "worker/step/determinism.h"

#include <cstdlib>
#include <string>

#include <ATen/Context.h>
#include <fmt/format.h>

#include "configs/load.h"

namespace foretime::worker {

void make_deterministic() {
  constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";
  // The two values under which cuBLAS promises the same results with several streams.
  setenv(kWorkspace, ":4096:8", 0);
  const std::string workspace = std::getenv(kWorkspace);
  if (workspace != ":4096:8" && workspace != ":16:8") {
    throw configs::SettingsError(
        fmt::format("trainer.deterministic: the environment's {} is '{}', expected :4096:8 or :16:8; unset it",
                    kWorkspace, workspace));
  }
  // NCCL chooses by measured speeds otherwise. What the user has set is as fixed.
  setenv("NCCL_ALGO", "Ring", 0);
  setenv("NCCL_PROTO", "Simple", 0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

}  // namespace foretime::worker
