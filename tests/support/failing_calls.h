#pragma once

#include <string>
#include <utility>

namespace foretime::testing {

/// While it lives, a system call of this thread fails with that errno: "fstat", "read", "pread" or "readlink". Whoever
/// uses it links foretime_failing_calls, whose functions take the place of the C library's in the whole program.
class FailingCall {
 public:
  FailingCall(std::string name, int error);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;
};

}  // namespace foretime::testing
