#pragma once

#include <string>
#include <vector>

#include "jobs/queue/job.h"

namespace foretime::jobs {

/// Turns a job into a command line. The template belongs to the agent's operator, never to a job: words separated by
/// blanks (quotes group, no shell), with {ranks} {cpus} {gpus} {threads} filled in and {command} standing for the
/// program and its arguments, each a word of its own.
class Launcher {
 public:
  /// "auto" (direct for one rank, mpirun for more), "direct", "mpirun", "srun", or a template with {command}. Throws
  /// JobsError: {command} is missing or not a word of its own, an unknown {name}, an open quote.
  explicit Launcher(const std::string& text);
  std::vector<std::string> arguments(const Resources& resources, const std::vector<std::string>& command) const;
  const std::string& text() const { return text_; }

  /// Open MPI waits about twice the time-out whenever it has to end a rank, whether the rank still lives or not: a
  /// crash is to be known soon, and checkpoints are asked for by the socket long before SIGTERM.
  static constexpr const char* kMpirun =
      "mpirun -n {ranks} --bind-to none --oversubscribe -x FORETIME_PROGRESS -x OMP_NUM_THREADS "
      "--mca odls_base_sigkill_timeout 5 {command}";
  static constexpr const char* kSrun = "srun --ntasks={ranks} --cpus-per-task={cpus} --kill-on-bad-exit=1 {command}";

 private:
  std::string text_;
  std::vector<std::string> words_;
};

}  // namespace foretime::jobs
