#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "tests/support/scratch.h"

/// What tests of processes look at.
namespace foretime::testing {

/// Waits until `condition` holds. Returns false after a limit that only a program that hangs reaches.
inline bool eventually(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Processes that live (no zombies) and whose command line holds `mark`, other than this one.
inline std::vector<pid_t> processes_with(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (pid != getpid() && read_text(entry.path() / "cmdline").find(mark) != std::string::npos) found.push_back(pid);
  }
  return found;
}

/// Those of them that lead a session of their own.
inline std::vector<pid_t> session_leaders_with(const std::string& mark) {
  auto found = processes_with(mark);
  std::erase_if(found, [](pid_t pid) { return getsid(pid) != pid; });
  return found;
}

inline bool nothing_left(const std::string& mark) {
  return eventually([&] { return processes_with(mark).empty(); });
}

inline size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

/// Sets a variable for one test; an empty value removes it.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value.empty() ? std::nullopt : std::optional(value));
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) { value ? setenv(name_, value->c_str(), 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace foretime::testing
