#include "jobs/supervisor/supervisor_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Async-signal-safe calls only in this file: no allocation, no locks.
namespace foretime::jobs {
namespace {

constexpr int kAgentCheckMs = 1000;  // interval of getppid, the second sign of a dead agent
constexpr int kKillRoundMs = 20;

}  // namespace

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

pid_t safe_fork() {
#if defined(__GLIBC_PREREQ) && __GLIBC_PREREQ(2, 34)
  return _Fork();
#else
  return fork();
#endif
}

namespace {

void close_range_of(unsigned first, unsigned last) {
  if (first > last) return;
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, last, 0U) == 0) return;
#endif
  const unsigned highest = sysconf(_SC_OPEN_MAX) > 0 ? sysconf(_SC_OPEN_MAX) : 1024;
  for (unsigned i = first; i <= last && i < highest; ++i) close(i);
}

}  // namespace

void close_all_but(int* kept, size_t count) {
  std::sort(kept, kept + count);
  unsigned next = 3;
  for (size_t i = 0; i < count; ++i) {
    if (kept[i] < 3) continue;
    const unsigned keep = kept[i];
    if (keep > next) close_range_of(next, keep - 1);
    next = keep + 1;
  }
  close_range_of(next, ~0U);
}

void default_signals() {
  // By the kernel's own call: glibc 2.41 locks for SIGABRT, and a fork on another thread may have left that locked.
  const unsigned long by_default[8] = {};  // SIG_DFL, no flags, an empty mask
  for (int signal = 1; signal < NSIG; ++signal) syscall(SYS_rt_sigaction, signal, by_default, nullptr, NSIG / 8);
}

namespace {

/// Pipes and sockets of other jobs that were open in the agent would never come to their end if this process held them.
void close_others(const SupervisorPlan& plan) {
  int kept[] = {plan.control,         plan.status,         plan.failure, plan.output,
                plan.standard_output, plan.working_folder, plan.proc,    plan.null};
  close_all_but(kept, sizeof(kept) / sizeof(kept[0]));
}

void write_all(int descriptor, const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = TEMP_FAILURE_RETRY(write(descriptor, bytes, size));
    if (written <= 0) return;  // nobody reads it any more
    bytes += written;
    size -= written;
  }
}

[[noreturn]] void fail(const SupervisorPlan& plan, StartFailure::Step step) {
  const StartFailure failure{step, errno};
  write_all(plan.failure, &failure, sizeof(failure));
  _exit(127);
}

/// Waits until `ready` ends, which the supervisor closes last: a command that stops it earlier would block the agent.
[[noreturn]] void run_command(const SupervisorPlan& plan, pid_t supervisor, const int (&ready)[2]) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(128 + SIGKILL);
  setpgid(0, 0);
  close(ready[1]);
  char byte = 0;
  TEMP_FAILURE_RETRY(read(ready[0], &byte, 1));
  dup2(plan.null, 0);
  dup2(plan.standard_output >= 0 ? plan.standard_output : plan.output, 1);
  dup2(plan.output, 2);
  if (fchdir(plan.working_folder) != 0) fail(plan, StartFailure::kFolder);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.program, plan.arguments, plan.environment);
  fail(plan, StartFailure::kExecute);
}

/// Parent of the process, 0 where it cannot be read (it has just ended).
pid_t parent_of(int proc, const char* pid) {
  char path[64];
  size_t length = 0;
  for (; pid[length] != 0 && length < 20; ++length) path[length] = pid[length];
  memcpy(path + length, "/stat", 6);
  const int file = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[512];
  const ssize_t got = read(file, text, sizeof(text) - 1);
  close(file);
  if (got <= 0) return 0;
  text[got] = 0;
  // "pid (name) state parent …": the name may hold blanks and parentheses, so its end is the last ")".
  const char* at = strrchr(text, ')');
  if (at == nullptr || strlen(at) < 5) return 0;
  pid_t parent = 0;
  for (at += 4; *at >= '0' && *at <= '9'; ++at) parent = parent * 10 + (*at - '0');
  return parent;
}

struct DirectoryEntry {  // linux_dirent64; readdir is not async-signal-safe
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[1];
};

/// Sends SIGKILL to every child of this process, whose children then become ours.
void kill_children(int proc) {
  const pid_t self = getpid();
  alignas(8) char buffer[16384];
  lseek(proc, 0, SEEK_SET);
  for (;;) {
    const long got = syscall(SYS_getdents64, proc, buffer, sizeof(buffer));
    if (got <= 0) return;
    for (long at = 0; at < got;) {
      const char* entry = buffer + at;
      uint16_t length = 0;
      memcpy(&length, entry + offsetof(DirectoryEntry, length), sizeof(length));
      const char* name = entry + offsetof(DirectoryEntry, name);
      at += length;
      if (*name < '1' || *name > '9' || parent_of(proc, name) != self) continue;
      pid_t pid = 0;
      for (; *name >= '0' && *name <= '9'; ++name) pid = pid * 10 + (*name - '0');
      kill(pid, SIGKILL);
    }
  }
}

/// Holds the state of the supervisor's command.
struct Watch {
  pid_t command = -1;
  bool ended = false;  // the command, and it has been waited for
  SupervisorStatus status;
};

/// Waits for all that has ended. False: there is no child left.
bool reap(Watch& watch) {
  for (;;) {
    // Looked at before it is waited for: until then the command's number is also its group's, and cannot be a stranger.
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (info.si_pid == 0) return true;
    if (info.si_pid == watch.command) kill(-watch.command, SIGKILL);
    int status = 0;
    if (waitpid(info.si_pid, &status, 0) != watch.command || info.si_pid != watch.command) continue;
    watch.ended = true;
    watch.status.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    watch.status.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

/// Kills level by level until nothing is left: children of a dying process become ours.
void kill_all(const SupervisorPlan& plan, Watch& watch, int signals) {
  while (reap(watch)) {
    if (!watch.ended) kill(-watch.command, SIGKILL);
    kill_children(plan.proc);
    pollfd wait{signals, POLLIN, 0};
    poll(&wait, 1, kKillRoundMs);
    signalfd_siginfo info;
    while (read(signals, &info, sizeof(info)) > 0) continue;
  }
}

/// Returns when everything has to be killed: the command ended, an order, the grace time is over, the agent is gone.
void watch_command(const SupervisorPlan& plan, Watch& watch, int signals) {
  int64_t deadline = -1;
  while (reap(watch) && !watch.ended && getppid() == plan.agent) {
    int timeout = kAgentCheckMs;
    if (deadline >= 0) {
      const int64_t left = deadline - now_ms();
      if (left <= 0) return;
      if (left < timeout) timeout = left;
    }
    pollfd waits[] = {{plan.control, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(waits, 2, timeout) <= 0) continue;
    signalfd_siginfo info;
    while (read(signals, &info, sizeof(info)) > 0) continue;
    if (waits[0].revents == 0) continue;
    char order = 0;
    const ssize_t got = read(plan.control, &order, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0 || order == kKill) return;
    if (order == kTerminate && deadline < 0) {
      deadline = now_ms() + plan.grace_ms;
      kill(-watch.command, SIGTERM);
    }
  }
}

}  // namespace

void run_supervisor(const SupervisorPlan& plan) {
  // Starts a new session: the terminal's signals are for the agent. All signals stay blocked.
  setsid();
  default_signals();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "ft-supervisor");
  for (int i = 0; i < 3; ++i) dup2(plan.null, i);
  close_others(plan);
  sigset_t child_ends;
  sigemptyset(&child_ends);
  sigaddset(&child_ends, SIGCHLD);
  const int signals = signalfd(-1, &child_ends, SFD_NONBLOCK | SFD_CLOEXEC);

  Watch watch;
  const pid_t self = getpid();
  int ready[2] = {-1, -1};
  if (pipe2(ready, O_CLOEXEC) != 0 || (watch.command = safe_fork()) < 0) fail(plan, StartFailure::kFork);
  if (watch.command == 0) run_command(plan, self, ready);
  setpgid(watch.command, watch.command);  // here too: whoever comes first, an order finds the group
  close(plan.failure);
  close(plan.output);
  if (plan.standard_output >= 0) close(plan.standard_output);
  close(plan.working_folder);
  close(ready[1]);

  watch_command(plan, watch, signals);
  kill_all(plan, watch, signals);
  rusage used{};
  if (getrusage(RUSAGE_CHILDREN, &used) == 0) watch.status.peak_kib = used.ru_maxrss;
  write_all(plan.status, &watch.status, sizeof(watch.status));
  _exit(0);
}

}  // namespace foretime::jobs
