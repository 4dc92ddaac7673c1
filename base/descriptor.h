#pragma once

#include <csignal>
#include <utility>

#include <unistd.h>

#include "base/no_copy.h"

namespace foretime {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }                   // -1 if this object owns none
  int release() { return std::exchange(value_, -1); }  // the caller must close it from now on

 private:
  int value_ = -1;
};

/// Blocks all signals of this thread during its lifetime, then restores the earlier mask. Used around a fork, so that
/// the child does not run the parent's handlers before it has set its own mask.
class BlockedSignals : NoCopy {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace foretime
