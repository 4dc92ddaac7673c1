#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace foretime {

/// Exit codes of the program, as the README documents them. Crashes use 1.
enum ExitCode : int {
  kSuccess = 0,
  kInternal = 1,
  kUsage = 2,
  kData = 3,
  kComm = 4,
  kPeerLost = 5,
  kParentKept = 6,  // fine-tuning kept the weights of its parent
  kJobsFailed = 7,
  kOutOfMemory = 8,
  kFault = 70,    // EX_SOFTWARE of sysexits.h: FORETIME_CHECK (base/check.h)
  kStorage = 74,  // EX_IOERR of sysexits.h
  kPreempted = 75
};

/// Reports a foreseen failure with its exit code. Each folder has its own types. The message reads `file: member or
/// field: what was found, expected what`.
class Error : public std::runtime_error {
 public:
  Error(int exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Defines a kind of failure with its exit code. Its constructors take a message, or a format with arguments. A folder
/// declares each kind in one line: `struct RunError : ErrorOf<kData> { using ErrorOf::ErrorOf; };`. `Base` is the more
/// general kind: `catch (const Base&)` catches this one as well.
template <ExitCode code, class Base = Error>
class ErrorOf : public Base {
 public:
  using Base::Base;
  explicit ErrorOf(const std::string& message) : Base(code, message) {}
  template <class First, class... Rest>
  explicit ErrorOf(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : ErrorOf(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)) {}
};

/// Reports input that is missing, damaged or against its format.
struct DataError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// Reports a failure whose message has been printed, so that only the exit code remains to be returned.
struct ReportedError : Error {
  using Error::Error;
};

/// Returns whether an error means that memory was exhausted, on the CPU or a GPU: std::bad_alloc, an Error with exit
/// code kOutOfMemory, a system error ENOMEM, or LibTorch's errors of that kind.
bool is_out_of_memory(const std::exception& error);

/// Returns the exit code of an exception: that of an Error, kOutOfMemory if is_out_of_memory, kStorage for a system
/// error of the storage (is_storage_failure), kData for another filesystem_error, and kInternal for anything else.
int exit_code_of(const std::exception& error);

/// Returns the text that users see for an exception: its message. For exhausted memory, unless it is an Error, the text
/// is the first line of the message and a remedy; for a storage failure of standard output it names standard output.
std::string text_of_error(const std::exception& error);
/// Returns whether an error is EPIPE: standard output has no reader any more, as in `foretime leaderboard | head`.
bool is_broken_pipe(const std::exception& error);

}  // namespace foretime
