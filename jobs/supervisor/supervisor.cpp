#include "jobs/supervisor/supervisor.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/process.h"
#include "jobs/error.h"
#include "jobs/supervisor/supervisor_process.h"

namespace foretime::jobs {
namespace {

/// Too many processes or files, say, are the machine's fault; a command that is too long is the job's.
[[noreturn]] void refuse(const std::string& command, const std::string& what, int error) {
  const auto message = fmt::format("cannot start {}: {}: {}", command, what, std::strerror(error));
  if (error == EAGAIN || error == ENOMEM || error == ETXTBSY || is_storage_failure(error)) throw NodeError(message);
  throw JobsError(message);
}

/// Above 2, where the child's dup2 onto 0, 1 and 2 cannot hit it even if the agent runs with these closed.
Descriptor above_standard(int descriptor, const std::string& command, const std::string& what) {
  if (descriptor < 0) refuse(command, what, errno);
  Descriptor first(descriptor);
  if (descriptor > 2) return first;
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (moved < 0) refuse(command, what, errno);
  return Descriptor(moved);
}

/// The two ends that `call`, which is `what`, makes.
std::pair<Descriptor, Descriptor> make_ends(const std::string& command, const char* what,
                                            const std::function<int(int*)>& call) {
  std::array<int, 2> ends{-1, -1};
  if (call(ends.data()) != 0) refuse(command, what, errno);
  Descriptor second(ends[1]);
  auto first = above_standard(ends[0], command, what);
  return {std::move(first), above_standard(second.release(), command, what)};
}

std::pair<Descriptor, Descriptor> make_pipe(const std::string& command) {
  return make_ends(command, "pipe", [](int* ends) { return pipe2(ends, O_CLOEXEC); });
}

/// As execvp would find it, but never through a shell.
std::string program_for(const std::string& name, const std::map<std::string, std::string>& environment) {
  if (name.empty()) throw JobsError("cannot start a job: its command is empty");
  const char* own = std::getenv("PATH");
  const auto given = environment.find("PATH");
  const std::string path = given != environment.end() ? given->second : own != nullptr ? own : "/usr/bin:/bin";
  auto program = find_program(name, path);
  if (program.empty()) throw JobsError("cannot start {}: it is in none of the folders of PATH ({})", name, path);
  return program;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (changes.count(entry.substr(0, entry.find('='))) == 0) merged.push_back(entry);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) merged.push_back(name + "=" + value);
  }
  return merged;
}

template <class Record>
bool read_record(int descriptor, Record& record) {
  size_t have = 0;
  while (have < sizeof(record)) {
    const auto got = read(descriptor, reinterpret_cast<char*>(&record) + have, sizeof(record) - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

void wait_for(pid_t pid, int* status) {
  while (waitpid(pid, status, 0) < 0 && errno == EINTR) continue;
}

}  // namespace

SupervisedProcess::SupervisedProcess(const Options& options) {
  auto arguments = options.arguments;
  const std::string command = arguments.empty() ? "" : arguments.front();
  const auto program = program_for(command, options.environment);
  auto environment = merged_environment(options.environment);
  const auto argument_pointers = exec_pointers(arguments);
  const auto environment_pointers = exec_pointers(environment);
  const std::string folder_name = options.working_folder.empty() ? "." : options.working_folder.string();

  const auto folder = above_standard(open(folder_name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), command,
                                     "working folder " + folder_name);
  const auto proc = above_standard(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), command, "/proc");
  const auto null = above_standard(open("/dev/null", O_RDWR | O_CLOEXEC), command, "/dev/null");
  auto [control, control_there] = make_ends(
      command, "socketpair", [](int* ends) { return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends); });
  auto [output, output_there] = make_pipe(command);
  auto [status, status_there] = make_pipe(command);
  auto [failure, failure_there] = make_pipe(command);
  std::pair<Descriptor, Descriptor> standard;
  if (options.separate_stdout) standard = make_pipe(command);

  SupervisorPlan plan{.program = program.c_str(),
                      .arguments = argument_pointers.data(),
                      .environment = environment_pointers.data(),
                      .agent = getpid(),
                      .grace_ms = static_cast<int64_t>(options.kill_grace_seconds * 1e3),
                      .control = control_there.get(),
                      .status = status_there.get(),
                      .failure = failure_there.get(),
                      .output = output_there.get(),
                      .standard_output = standard.second.get(),
                      .working_folder = folder.get(),
                      .proc = proc.get(),
                      .null = null.get()};
  {
    const BlockedSignals blocked;
    supervisor_ = safe_fork();
    if (supervisor_ == 0) run_supervisor(plan);
  }
  if (supervisor_ < 0) refuse(command, "fork", errno);
  // Ends that the supervisor alone may hold: the ends of streams depend on it.
  for (auto* there : {&control_there, &output_there, &status_there, &failure_there, &standard.second})
    *there = Descriptor();

  StartFailure found;
  if (read_record(failure.get(), found)) {
    control = Descriptor();
    wait_for(supervisor_, nullptr);
    refuse(command,
           found.step == StartFailure::kFork     ? "fork"
           : found.step == StartFailure::kFolder ? "working folder " + folder_name
                                                 : program,
           found.error);
  }
  for (const auto* end : {&output, &status, &standard.first}) {
    if (end->get() >= 0) fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  control_ = std::move(control);
  output_ = std::move(output);
  status_ = std::move(status);
  standard_output_ = std::move(standard.first);
}

SupervisedProcess::~SupervisedProcess() {
  kill();
  while (!poll_exit()) {
    pollfd wait{status_.get(), POLLIN, 0};
    poll(&wait, 1, -1);
  }
}

std::optional<ExitStatus> SupervisedProcess::poll_exit() {
  if (exit_) return exit_;
  SupervisorStatus status;
  const auto got = read(status_.get(), &status, sizeof(status));  // written in one piece, below PIPE_BUF
  if (got < 0) return std::nullopt;
  int ended = 0;
  wait_for(supervisor_, &ended);
  if (got == sizeof(status))
    exit_ = ExitStatus{status.code, status.signal};
  else
    exit_ = ExitStatus{128 + (WIFSIGNALED(ended) ? WTERMSIG(ended) : SIGKILL),
                       WIFSIGNALED(ended) ? WTERMSIG(ended) : SIGKILL};
  return exit_;
}

void SupervisedProcess::terminate() { order(kTerminate); }
void SupervisedProcess::kill() { order(kKill); }

void SupervisedProcess::order(char what) {
  // A supervisor that has ended already needs no order, and must not raise SIGPIPE here.
  if (!exit_) [[maybe_unused]]
    const auto sent = send(control_.get(), &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace foretime::jobs
