#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace foretime::jobs {

/// Holds everything that the forked supervisor needs, made before the fork: after it only async-signal-safe functions
/// are called, since another thread may have held any lock. All descriptors are above 2 and close on exec.
struct SupervisorPlan {
  const char* program = nullptr;       // path of the command, for execve
  char* const* arguments = nullptr;    // arguments of the command; null ends them
  char* const* environment = nullptr;  // environment of the command; null ends it
  pid_t agent = 0;                     // process number of the agent
  int64_t grace_ms = 0;                // time between SIGTERM and SIGKILL
  int control = -1;                    // socket to the agent, which sends orders and closes it when it ends
  int status = -1;                     // receives a SupervisorStatus when no process is left
  int failure = -1;                    // receives a StartFailure; closes without one once the command was executed
  int output = -1;                     // the command's stderr, and its stdout unless standard_output is set
  int standard_output = -1;            // the command's stdout; -1: stdout goes to `output`
  int working_folder = -1;
  int proc = -1;  // /proc
  int null = -1;  // /dev/null
};

/// The message that the supervisor writes when no process is left.
struct SupervisorStatus {
  int32_t code = 0, signal = 0;  // exit code, 128 + signal after a signal; signal, 0: none
  int64_t peak_kib = 0;          // peak resident memory of the largest process
};

/// The message of a supervisor that could not start the command.
struct StartFailure {
  enum Step : int32_t { kFork, kFolder, kExecute };
  int32_t step = 0, error = 0;  // the Step that failed, and its errno
};

constexpr char kTerminate = 'T', kKill = 'K';  // orders on the control socket

/// Returns the milliseconds of a monotonic clock. Async-signal-safe.
int64_t now_ms();

/// Forks without the handlers of pthread_atfork, which are not async-signal-safe. Before glibc 2.34, runs them.
pid_t safe_fork();

/// Closes every descriptor above 2 except the `count` descriptors in `kept`, and sorts `kept`. Async-signal-safe.
void close_all_but(int* kept, size_t count);

/// Resets every signal to its default action. Async-signal-safe.
void default_signals();

/// Runs the supervisor until no process is left. Must be called in the child of a fork, with all signals blocked.
[[noreturn]] void run_supervisor(const SupervisorPlan& plan);

}  // namespace foretime::jobs
