#pragma once

#include <fcntl.h>
#include <sys/resource.h>

#include "base/descriptor.h"

namespace foretime::testing {

/// While it lives, no descriptor is left, so that nothing can be opened (EMFILE).
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const Descriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next.get());
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace foretime::testing
