#include "jobs/redis/embedded_guardian.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/redis/bounded_text.h"
#include "jobs/supervisor/supervisor_process.h"

// Async-signal-safe calls only in this file: no allocation, no locks, no C++ library.
namespace foretime::jobs {
namespace {

constexpr int64_t kLookMs = 300;  // interval between checks for users
constexpr int64_t kStartMs = 20;  // the same until the server has answered for the first time
constexpr int kGuardianAskMs = 200;
constexpr int64_t kFirstPauseMs = 100, kLongestPauseMs = 5000;  // pause before a dead server is restarted
constexpr int64_t kSteadyMs = 10'000;                           // a server that lived so long starts without delay
constexpr int64_t kStopMs = 20'000;                             // time between SIGTERM and SIGKILL
constexpr int64_t kRecordMs = 3'600'000;  // between two records of an append-only file that only grows
constexpr off_t kLargestLog = 4 << 20;    // bytes of redis.log above which it is emptied

void write_text(const char* text, int to = 2) { [[maybe_unused]] const auto written = write(to, text, strlen(text)); }

int open_log(const GuardianPlan& plan) {
  return openat(plan.folder, "redis.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

[[noreturn]] void run_server(const GuardianPlan& plan, pid_t guardian) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != guardian) _exit(128 + SIGTERM);
  // What redis-server says before it has read where its log is, goes there too.
  const int log = open_log(plan);
  struct stat found {};
  if (log >= 0 && fstat(log, &found) == 0 && found.st_size > kLargestLog && ftruncate(log, 0) != 0) _exit(127);
  dup2(log >= 0 ? log : plan.dev_null, 1);
  dup2(log >= 0 ? log : plan.dev_null, 2);
  fcntl(plan.server_lock, F_SETFD, 0);  // held until the server has ended, even where the guardian was killed
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.server_path, plan.arguments, plan.environment);
  const char* why = strerrordesc_np(errno);
  write_text("redis-server could not be executed: ");
  write_text(why != nullptr ? why : "unknown error");
  write_text("\n");
  _exit(127);
}

/// Appends `count` bytes of an answer to `text`; false where they do not come in time.
bool receive(int connection, BoundedText<256>& text, size_t count, int64_t limit) {
  while (count > 0) {
    char bytes[256];
    pollfd wait{connection, POLLIN, 0};
    const int64_t left = limit - now_ms();
    if (left < 0 || poll(&wait, 1, left) != 1) return false;
    const ssize_t got = recv(connection, bytes, count < sizeof(bytes) ? count : sizeof(bytes), 0);
    if (got <= 0) return false;
    text.add(std::string_view(bytes, got));
    count -= got;
  }
  return true;
}

/// One guardian's life with its server.
class Guardian {
 public:
  explicit Guardian(const GuardianPlan& plan) : plan_(plan), record_(plan.store_record) {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    signals_ = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  }

  void live() {
    write_number();
    serve();
    if (owns()) unlinkat(plan_.folder, "owner", 0);
    close(plan_.server_lock);
    close(plan_.guardian_lock);
  }

 private:
  void serve() {
    last_user_ = now_ms();
    // A server whose guardian was killed may still be ending; two must never write the same files.
    while (flock(plan_.server_lock, LOCK_EX | LOCK_NB) != 0)
      if (!rest(kStartMs) || has_no_users() || !beat()) return;
    for (;;) {
      if (server_ < 0 && now_ms() >= next_start_) {
        // What a server lost with its files must be reported, which the next user's start does.
        if (!record_.may_be_loaded(plan_.folder)) return;
        start();
      }
      if (!rest(pause_until_next_look())) break;
      if (!reap()) {
        give_up();
        return;
      }
      if (!beat()) {  // another machine has taken the folder over: its server must not meet ours
        kill_server();
        return;
      }
      if (server_ > 0 && !is_checked_ && !check_settings()) {
        kill_server();
        give_up();
        return;
      }
      if (server_ > 0 && is_checked_ && is_record_due()) write_record();
      if (has_no_users()) break;
    }
    stop();
  }

  /// Returns whether the server has the settings that it was given, as far as it answers.
  bool check_settings() {
    const ServerSetting* wrong = nullptr;
    const auto answer = ask_redis("redis.sock", kGuardianAskMs, kServerSettings, &wrong);
    is_checked_ = answer == Answer::ready;
    served_ = served_ || is_checked_;
    if (answer != Answer::wrong_settings) return true;
    const int log = open_log(plan_);
    write_text("foretime: redis-server was stopped, because its setting ", log);
    write_text(wrong->name, log);
    write_text(" is not ", log);
    write_text(wrong->value[0] == '\0' ? "empty" : wrong->value, log);
    write_text(", as its arguments say; is the redis-server in PATH a program that changes them?\n", log);
    close(log);
    return false;
  }

  /// Leaves the sign that this guardian gave up.
  void give_up() { [[maybe_unused]] const int emptied = ftruncate(plan_.guardian_lock, 0); }

  void kill_server() {
    if (server_ > 0) kill(server_, SIGKILL);
    while (server_ > 0 && waitpid(server_, nullptr, 0) < 0 && errno == EINTR) continue;
    server_ = -1;
  }

  bool is_record_due() const { return now_ms() >= next_record_ || manifest_inode(plan_.folder) != record_.manifest(); }

  /// Saves the record of the append-only file. Where the server was writing, the next look tries again.
  void write_record() {
    if (!record_.measure(plan_.folder) || ask_redis("redis.sock", kGuardianAskMs) != Answer::ready) return;
    if (record_.is_current(plan_.folder) && record_.save(plan_.folder)) next_record_ = now_ms() + kRecordMs;
  }

  void write_number() {
    char digits[24];
    size_t at = sizeof(digits);
    digits[--at] = '\n';
    for (pid_t left = getpid(); left > 0; left /= 10) digits[--at] = '0' + left % 10;
    [[maybe_unused]] const auto written = write(plan_.owner_file, digits + at, sizeof(digits) - at);
    next_beat_ = now_ms() + kOwnerBeatMs;
  }

  /// Returns whether the file `owner` is still the one of this guardian; true if the storage fails.
  bool owns() const {
    struct stat ours {
    }, there{};
    if (fstat(plan_.owner_file, &ours) != 0) return errno != ESTALE;
    if (fstatat(plan_.folder, "owner", &there, AT_SYMLINK_NOFOLLOW) != 0) return errno != ENOENT;
    return ours.st_ino == there.st_ino;
  }

  /// Shows now and then that this guardian lives. Returns whether it still owns the folder.
  bool beat() {
    if (!owns()) return false;
    if (now_ms() < next_beat_) return true;
    next_beat_ = now_ms() + kOwnerBeatMs;
    futimens(plan_.owner_file, nullptr);
    return true;
  }

  int64_t pause_until_next_look() const {
    int64_t pause = served_ ? kLookMs : kStartMs;
    if (pause > plan_.linger_ms / 2) pause = plan_.linger_ms / 2 > kStartMs ? plan_.linger_ms / 2 : kStartMs;
    if (server_ >= 0) return pause;
    const int64_t left = next_start_ - now_ms();
    return left < 0 ? 0 : left < pause ? left : pause;
  }

  /// Waits. Returns whether nobody asks for the end.
  bool rest(int64_t milliseconds) {
    pollfd wait{signals_, POLLIN, 0};
    poll(&wait, 1, milliseconds);
    bool continues = true;
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof(info)) == sizeof(info))
      if (info.ssi_signo == SIGTERM) continues = false;
    return continues;
  }

  /// Returns whether there was no user for `linger`. Then users.lock is held, so that new users wait for the end.
  bool has_no_users() {
    if (flock(plan_.users_lock, LOCK_EX | LOCK_NB) != 0) {
      last_user_ = now_ms();
      return false;
    }
    if (now_ms() - last_user_ >= plan_.linger_ms) return true;
    flock(plan_.users_lock, LOCK_UN);
    return false;
  }

  void start() {
    const pid_t self = getpid();
    started_ = now_ms();
    is_checked_ = false;
    server_ = safe_fork();
    if (server_ == 0) run_server(plan_, self);
    if (server_ < 0) plan_next_start();
  }

  void plan_next_start() {
    const int64_t now = now_ms();
    if (now - started_ > kSteadyMs) pause_ = kFirstPauseMs;
    next_start_ = now + pause_;
    pause_ = pause_ * 2 < kLongestPauseMs ? pause_ * 2 : kLongestPauseMs;
  }

  /// Collects a server that has ended. Returns false if it exited before any server answered.
  bool reap() {
    int status = 0;
    if (server_ <= 0 || waitpid(server_, &status, WNOHANG) != server_) return true;
    server_ = -1;
    plan_next_start();
    return served_ || !WIFEXITED(status);
  }

  void stop() {
    if (server_ > 0) kill(server_, SIGTERM);
    const int64_t limit = now_ms() + kStopMs;
    int status = -1;
    while (server_ > 0 && waitpid(server_, &status, WNOHANG) == 0) {
      if (now_ms() >= limit) kill(server_, SIGKILL);
      rest(kStartMs);
    }
    // A server that was killed may leave half a transition, which the next one cuts off.
    const bool ended = server_ > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended && record_.measure(plan_.folder)) record_.save(plan_.folder);
    unlinkat(plan_.folder, "redis.sock", 0);
  }

  const GuardianPlan& plan_;
  int signals_ = -1;
  pid_t server_ = -1;
  bool served_ = false;      // a server of this guardian has answered
  bool is_checked_ = false;  // the present one has, and has the right settings
  StoreRecord record_;
  int64_t last_user_ = 0, started_ = 0, next_start_ = 0, next_beat_ = 0, next_record_ = 0, pause_ = kFirstPauseMs;
};

[[noreturn]] void run_guardian(const GuardianPlan& plan) {
  prctl(PR_SET_NAME, "ft-redis");
  if (plan.command_line_size > 0) {
    memset(plan.command_line, 0, plan.command_line_size);
    const size_t length = strlen(plan.title);
    memcpy(plan.command_line, plan.title, length < plan.command_line_size ? length : plan.command_line_size - 1);
  }
  for (int i = 0; i < 3; ++i) dup2(plan.dev_null, i);
  int kept[] = {plan.folder, plan.users_lock, plan.guardian_lock, plan.owner_file, plan.server_lock, plan.dev_null};
  close_all_but(kept, sizeof(kept) / sizeof(kept[0]));
  umask(077);
  if (fchdir(plan.folder) == 0) Guardian(plan).live();
  _exit(0);
}

}  // namespace

void leave_guardian(const GuardianPlan& plan) {
  setsid();
  default_signals();
  const pid_t guardian = safe_fork();
  if (guardian == 0) run_guardian(plan);
  _exit(guardian > 0 ? 0 : errno);
}

Answer ask_redis(const char* socket_path, int timeout_ms, std::span<const ServerSetting> expected,
                 const ServerSetting** wrong) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = strlen(socket_path);
  if (length >= sizeof(address.sun_path)) return Answer::none;
  memcpy(address.sun_path, socket_path, length);
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return Answer::none;
  Answer found = Answer::none;
  const auto limit = now_ms() + timeout_ms;
  BoundedText<256> start;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(connection, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && receive(connection, start, 7, limit))
    found = start.text() == "-LOADIN" ? Answer::loading : Answer::ready;
  if (start.text() != "+PONG\r\n") expected = {};  // another answer: the server is busy
  for (const auto& setting : expected) {
    if (found != Answer::ready) break;
    BoundedText<256> question, right, answer;
    for (const char* part : {"CONFIG GET ", setting.name, "\r\n"}) question.add(part);
    right.add("*2\r\n");
    for (const char* part : {setting.name, setting.value}) {
      right.add("$");
      right.add(strlen(part));
      right.add("\r\n");
      right.add(part);
      right.add("\r\n");
    }
    const ssize_t size = question.text().size();
    if (send(connection, question.text().data(), question.text().size(), MSG_NOSIGNAL) != size ||
        !receive(connection, answer, 1, limit) || answer.text() == "-") {
      found = Answer::none;
    } else if (!right.text().starts_with(answer.text()) ||
               !receive(connection, answer, right.text().size() - answer.text().size(), limit) ||
               answer.text() != right.text()) {
      found = Answer::wrong_settings;
      if (wrong != nullptr) *wrong = &setting;
    }
  }
  close(connection);
  return found;
}

}  // namespace foretime::jobs
