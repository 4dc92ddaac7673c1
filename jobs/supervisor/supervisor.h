#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.h"
#include "base/no_copy.h"

namespace foretime::jobs {

/// Describes how a supervised command ended.
struct ExitStatus {
  int code = 0;                 // value passed to _exit; 128 + signal after a signal
  int signal = 0;               // signal that ended the command; 0: the command exited
  int64_t peak_memory_mib = 0;  // peak memory of the largest process; 0: unknown
  int64_t oom_kills = 0;        // processes that the kernel's OOM killer killed meanwhile in the agent's cgroup
};

/// Runs one command with all its descendants, none of which survives the agent.
///
/// A supervisor process, forked without exec, runs between agent and command. It is the subreaper of all descendants
/// (PR_SET_CHILD_SUBREAPER), so that mpirun's ranks can be found after mpirun dies, and it starts the command in a
/// separate process group. When the command ends, on request, or when the agent is gone (its socket closes, also after
/// SIGKILL), the supervisor kills the remaining processes until none is left, then ends. The command itself has
/// PR_SET_PDEATHSIG, in case the supervisor is killed. There is no shell: execve gets `arguments`.
class SupervisedProcess : NoCopy {
 public:
  struct Options {
    std::vector<std::string> arguments{};              // the first is searched in PATH unless it has a slash
    std::map<std::string, std::string> environment{};  // added to the agent's variables; an empty value removes one
    std::filesystem::path working_folder{};            // empty: the agent's working folder
    double kill_grace_seconds = 10;                    // time between the SIGTERM of terminate() and SIGKILL
    bool separate_stdout = false;                      // stdout has a separate pipe; output() then has only stderr
    std::string listen{};  // address for channels of ranks on other hosts (jobs/progress/tcp.h); empty: none
  };
  /// Starts the command. Throws JobsError if this command cannot be started (not found, no rights), and NodeError if
  /// the machine cannot start any (process limit, memory, disk). No process remains after an error.
  explicit SupervisedProcess(const Options& options);
  ~SupervisedProcess();  // kills the remaining processes and waits for them

  /// Returns the non-blocking read end of a pipe with stdout and stderr, which ends when no process lives.
  int output() const { return output_.get(); }
  /// Returns the read end, non-blocking, of a pipe with only the command's stdout; -1 unless separate_stdout.
  int standard_output() const { return standard_output_.get(); }
  pid_t supervisor() const { return supervisor_; }
  /// Returns a descriptor for poll that becomes readable when all processes have ended.
  int status_descriptor() const { return status_.get(); }
  /// Returns how the command ended; empty while any of its processes lives. If the supervisor was killed, returns that
  /// signal.
  std::optional<ExitStatus> poll_exit();
  /// Sends SIGTERM to the process group, and SIGKILL to every descendant after the grace time. Returns at once.
  void terminate();
  /// Makes the supervisor send SIGKILL to every descendant. Returns at once. Calls later than kSupervisorPatienceMs
  /// after the first one also call kill_tree(), since a job may have stopped the supervisor (SIGSTOP).
  void kill();
  static constexpr int64_t kSupervisorPatienceMs = 3000;

 private:
  void send_order(char what);  // sends kTerminate or kKill (supervisor_process.h) to the supervisor
  /// Stops the supervisor and sends SIGKILL to all its descendants in /proc; if there are none, to the supervisor.
  void kill_tree() const;

  pid_t supervisor_ = -1;
  int64_t kill_ordered_ms_ = -1;  // time (now_ms) of the first kill(); negative: not called yet
  Descriptor control_, output_, standard_output_, status_;
  std::optional<ExitStatus> exit_;
  std::optional<int64_t> oom_kills_before_;  // OOM kills in the agent's cgroup before the start; empty: unknown
};

}  // namespace foretime::jobs
