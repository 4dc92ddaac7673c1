#pragma once

namespace foretime {

/// Base of classes that are neither copied nor moved.
struct NoCopy {
  NoCopy() = default;
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;
};

}  // namespace foretime
