#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.h"

namespace foretime::jobs {

/// How a supervised command ended.
struct ExitStatus {
  int code = 0;                 // as _exit got it; 128 + signal where a signal ended it
  int signal = 0;               // 0: it exited
  int64_t peak_memory_mib = 0;  // of its largest process; 0: unknown
  int64_t oom_kills = 0;        // processes that the kernel killed meanwhile for want of memory, in the agent's cgroup
};

/// One command with everything that it starts, none of which survives the agent.
///
/// A supervisor process, forked and not executed, stands between: it is the subreaper of all descendants
/// (PR_SET_CHILD_SUBREAPER), so that mpirun's ranks stay findable when mpirun dies; it starts the command in a process
/// group of its own; when the command ends, when it is told to, or when the agent is gone (the socket from it closes,
/// also after SIGKILL) it kills what is left until nothing is, then ends. The command itself has PR_SET_PDEATHSIG,
/// should the supervisor be killed. No shell: `arguments` is what execve gets.
class SupervisedProcess {
 public:
  struct Options {
    std::vector<std::string> arguments{};              // the first is looked for in PATH where it has no slash
    std::map<std::string, std::string> environment{};  // laid over the agent's own; an empty value removes the variable
    std::filesystem::path working_folder{};            // empty: the agent's
    double kill_grace_seconds = 10;                    // between terminate's SIGTERM and SIGKILL
    bool separate_stdout = false;                      // a pipe of its own for stdout; output() then has stderr alone
    std::string listen{};  // where its channel listens for ranks of other hosts (jobs/progress/tcp.h); empty: nowhere
  };
  /// Throws JobsError where the command cannot be started (not found, no rights), NodeError where the machine cannot
  /// start any (no more processes, no memory, its disk fails): nothing is left behind.
  explicit SupervisedProcess(const Options& options);
  ~SupervisedProcess();  // kills what is left, and waits for it
  SupervisedProcess(const SupervisedProcess&) = delete;
  SupervisedProcess& operator=(const SupervisedProcess&) = delete;

  /// Read end, non-blocking, of what the command writes to stdout and stderr; at its end once nothing lives.
  int output() const { return output_.get(); }
  /// Read end, non-blocking, of the command's stdout alone; -1 unless separate_stdout.
  int standard_output() const { return standard_output_.get(); }
  pid_t supervisor() const { return supervisor_; }
  /// Becomes readable when everything has ended; for poll.
  int status_descriptor() const { return status_.get(); }
  /// Empty while anything of it lives. A supervisor that was killed itself gives its signal.
  std::optional<ExitStatus> poll_exit();
  /// SIGTERM to the process group, and SIGKILL to every descendant after the grace time. Returns at once.
  void terminate();
  /// SIGKILL to every descendant. Returns at once. Called again after kSupervisorPatienceMs, it kills the supervisor as
  /// well: a job runs as the same user and may have stopped it (SIGSTOP).
  void kill();
  static constexpr int64_t kSupervisorPatienceMs = 3000;

 private:
  void order(char what);
  /// SIGKILL to the supervisor and all that descends from it, as /proc shows it.
  void kill_tree() const;

  pid_t supervisor_ = -1;
  int64_t kill_ordered_ms_ = -1;  // below 0: it was not
  Descriptor control_, output_, standard_output_, status_;
  std::optional<ExitStatus> exit_;
  std::optional<int64_t> oom_kills_before_;
};

}  // namespace foretime::jobs
