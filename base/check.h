#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace foretime {

/// Reports a condition that only a fault of Foretime itself can make false. No code catches this type to continue.
struct BrokenInvariant : ErrorOf<kFault> {
  using ErrorOf::ErrorOf;
};

/// Throws BrokenInvariant with path (below the root of the sources), line, text of the condition, and any `detail`.
[[noreturn]] void fail_check(const char* condition, std::string_view file, int line, const std::string& detail);

}  // namespace foretime

/// Throws BrokenInvariant if `condition` is false, in all builds. The further arguments, which are optional, are a
/// format with its values: FORETIME_CHECK(rows == labels, "group {}: {} labels", group.name, labels). They are
/// evaluated only on failure. What a file, a setting, the storage or another process can cause is an Error of a
/// separate type.
#define FORETIME_CHECK(condition, ...)                                                                           \
  do {                                                                                                           \
    if (!(condition)) [[unlikely]]                                                                               \
      ::foretime::fail_check(#condition, __FILE__, __LINE__, std::string(__VA_OPT__(fmt::format(__VA_ARGS__)))); \
  } while (false)
