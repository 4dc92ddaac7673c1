#include "configs/consistency.h"

#include <fmt/format.h>

namespace foretime::configs {

std::string find_conflict(const Settings& s) {
  const bool ranks = s.loss.type == "listmle" || s.loss.type.starts_with("pairwise_");
  if (ranks && s.sampler.candidates_per_group < 2) {
    return fmt::format(
        "sampler.candidates_per_group: found {}, expected at least 2: loss.type {} compares candidates with each other",
        s.sampler.candidates_per_group, s.loss.type);
  }
  if (s.trainer.early_stop.patience > 0 && s.trainer.eval_every == 0) {
    return fmt::format(
        "trainer.early_stop.patience: found {} while trainer.eval_every is 0: without evaluations on the way no run "
        "stops "
        "early; set trainer.eval_every",
        s.trainer.early_stop.patience);
  }
  if (s.comm.backend == "nccl" && s.trainer.device == "cpu") {
    return "comm.backend: found nccl while trainer.device is cpu: NCCL reduces on GPUs only; set comm.backend to mpi";
  }
  return "";
}

}  // namespace foretime::configs
