#pragma once

#include <exception>
#include <string>
#include <utility>

namespace foretime::testing {

/// The text of message_of for a call that throws nothing.
inline constexpr const char* kNoException = "no exception";

/// What the `Error` says that a call throws; other exceptions pass.
template <class Error = std::exception, class Call>
std::string message_of(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return error.what();
  }
  return kNoException;
}

}  // namespace foretime::testing
