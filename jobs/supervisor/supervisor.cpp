#include "jobs/supervisor/supervisor.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/files.h"
#include "base/machine/machine.h"
#include "base/numbers.h"
#include "base/process.h"
#include "base/read_input.h"
#include "jobs/error.h"
#include "jobs/supervisor/supervisor_process.h"

namespace foretime::jobs {
namespace {

constexpr int kKillIntervalMs = 500;

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

/// Returns the path that execvp would find, but never runs a shell.
std::string program_for(const std::string& name, const std::map<std::string, std::string>& environment) {
  if (name.empty()) throw JobsError("cannot start a job: its command is empty");
  const char* own = std::getenv("PATH");
  const auto given = environment.find("PATH");
  const std::string path = given != environment.end() ? given->second : own != nullptr ? own : "/usr/bin:/bin";
  auto program = find_program(name, path);
  if (program.empty()) throw JobsError("cannot start {}: found in none of the folders in PATH ({})", name, path);
  return program;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (changes.count(entry.substr(0, entry.find('='))) == 0) merged.push_back(entry);
  }
  for (const auto& [name, value] : changes)
    if (!value.empty()) merged.push_back(name + "=" + value);
  return merged;
}

template <class Record>
bool read_record(int descriptor, Record& record) {
  size_t have = 0;
  while (have < sizeof(record)) {
    const auto got =
        TEMP_FAILURE_RETRY(read(descriptor, reinterpret_cast<char*>(&record) + have, sizeof(record) - have));
    if (got <= 0) return false;
    have += got;
  }
  return true;
}

/// All processes by their parents. Those that have ended and were not waited for are left out.
std::multimap<pid_t, pid_t> living_children() {
  std::multimap<pid_t, pid_t> children;
  std::error_code failure;
  for (std::filesystem::directory_iterator at("/proc", failure), end; !failure && at != end; at.increment(failure)) {
    const auto pid = parse_number<pid_t>(at->path().filename().string());
    if (!pid) continue;
    const auto text = kernel_text(at->path() / "stat");
    const auto name_end = text.rfind(')');  // "pid (name) state parent …"
    if (name_end == std::string::npos || name_end + 4 >= text.size() || text[name_end + 2] == 'Z') continue;
    auto parent = std::string_view(text).substr(name_end + 4);
    children.emplace(take_number<pid_t>(parent).value_or(0), *pid);
  }
  return children;
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
                      .grace_ms = milliseconds_of(options.kill_grace_seconds).count(),
                      .control = control_there.get(),
                      .status = status_there.get(),
                      .failure = failure_there.get(),
                      .output = output_there.get(),
                      .standard_output = standard.second.get(),
                      .working_folder = folder.get(),
                      .proc = proc.get(),
                      .null = null.get()};
  oom_kills_before_ = oom_kills("/");
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
  for (const auto* end : {&output, &status, &standard.first})
    if (end->get() >= 0) fcntl(end->get(), F_SETFL, O_NONBLOCK);
  control_ = std::move(control);
  output_ = std::move(output);
  status_ = std::move(status);
  standard_output_ = std::move(standard.first);
}

SupervisedProcess::~SupervisedProcess() {
  kill();
  while (!poll_exit()) {
    pollfd wait{status_.get(), POLLIN, 0};
    if (poll(&wait, 1, kKillIntervalMs) == 0) kill();
  }
}

std::optional<ExitStatus> SupervisedProcess::poll_exit() {
  if (exit_) return exit_;
  SupervisorStatus status;
  const auto got = read(status_.get(), &status, sizeof(status));  // written in one piece, below PIPE_BUF
  if (got < 0) return std::nullopt;
  int ended = 0;
  wait_for(supervisor_, &ended);
  if (got == sizeof(status)) exit_ = ExitStatus{status.code, status.signal, status.peak_kib / 1024};
  else
    exit_ = ExitStatus{128 + (WIFSIGNALED(ended) ? WTERMSIG(ended) : SIGKILL),
                       WIFSIGNALED(ended) ? WTERMSIG(ended) : SIGKILL};
  if (const auto now = oom_kills("/"); now && oom_kills_before_) exit_->oom_kills = *now - *oom_kills_before_;
  return exit_;
}

void SupervisedProcess::terminate() { send_order(kTerminate); }

void SupervisedProcess::kill() {
  if (exit_) return;
  send_order(kKill);
  if (kill_ordered_ms_ < 0) kill_ordered_ms_ = now_ms();
  if (now_ms() - kill_ordered_ms_ >= kSupervisorPatienceMs) kill_tree();
}

void SupervisedProcess::send_order(char what) {
  // A supervisor that has ended already needs no order, and must not raise SIGPIPE here.
  if (exit_) return;
  [[maybe_unused]] const auto sent = send(control_.get(), &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::kill(supervisor_, SIGCONT);  // still its process, since it has not been waited for
}

void SupervisedProcess::kill_tree() const {
  // It stops first, so that it adopts nobody meanwhile; what others start in between is found by the next call.
  ::kill(supervisor_, SIGSTOP);
  const auto children = living_children();
  std::vector<pid_t> tree = {supervisor_};
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto [first, last] = children.equal_range(tree[i]);
    for (auto child = first; child != last; ++child) tree.push_back(child->second);
  }
  // The supervisor last of all: its children would become those of init, where nobody finds them.
  if (tree.size() > 1) tree.erase(tree.begin());
  for (const auto pid : tree) ::kill(pid, SIGKILL);
}

}  // namespace foretime::jobs
