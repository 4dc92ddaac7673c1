#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace foretime {

/// Exit codes of the program, as the README documents them. 1 is left to crashes.
enum ExitCode : int {
  kSuccess = 0,
  kInternal = 1,
  kUsage = 2,
  kData = 3,
  kComm = 4,
  kPeerLost = 5,
  kJobsFailed = 7,  // 6 is fine-tuning's: it kept the weights of its parent
  kOutOfMemory = 8,
  kStorage = 74,  // EX_IOERR of sysexits.h
  kPreempted = 75
};

/// A failure that the program foresees, with the exit code that it stands for. Each folder has types of its own. The
/// message reads `file: member or field: what was found, expected what`.
class Error : public std::runtime_error {
 public:
  Error(int exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// A kind of failure with an exit code of its own, from a message or from a format with its arguments. A folder
/// declares its kinds in a line each: `struct RunError : ErrorOf<kData> { using ErrorOf::ErrorOf; };`. `Base` is a kind
/// that catches this one as well.
template <ExitCode code, class Base = Error>
class ErrorOf : public Base {
 public:
  using Base::Base;
  explicit ErrorOf(const std::string& message) : Base(code, message) {}
  template <class First, class... Rest>
  explicit ErrorOf(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : ErrorOf(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)) {}
};

/// Input that is missing, damaged or not what its format promises.
struct DataError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// A failure whose message has been printed: only the exit code is left to tell.
struct ReportedError : Error {
  using Error::Error;
};

/// Returns whether an allocation failed: std::bad_alloc, or LibTorch's errors of that kind, on the CPU or a GPU.
bool is_out_of_memory(const std::exception& error);

/// Returns the exit code of an exception: an Error's own, kOutOfMemory, kStorage and kData for files that cannot be
/// read or written (base/files.h), and kInternal for anything else.
int exit_code_of(const std::exception& error);

/// Returns what people are shown of an exception: its text, and for memory that is used up the first line of its text,
/// without C++ frames, and what to do.
std::string text_of_error(const std::exception& error);

}  // namespace foretime
