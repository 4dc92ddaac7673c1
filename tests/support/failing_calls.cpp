#include "tests/support/failing_calls.h"

#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace foretime::testing {
namespace {

thread_local std::string failing_name;
thread_local int failing_errno = 0;

bool fails(std::string_view name) {
  if (failing_errno == 0 || failing_name != name) return false;
  errno = failing_errno;
  return true;
}

}  // namespace

FailingCall::FailingCall(std::string name, int error) {
  failing_name = std::move(name);
  failing_errno = error;
}
FailingCall::~FailingCall() { failing_errno = 0; }

}  // namespace foretime::testing

extern "C" {

int fstat(int file, struct stat* found) noexcept {
  if (foretime::testing::fails("fstat")) return -1;
  return static_cast<int>(::syscall(SYS_fstat, file, found));
}

ssize_t read(int file, void* bytes, size_t count) {
  if (foretime::testing::fails("read")) return -1;
  return ::syscall(SYS_read, file, bytes, count);
}

ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  if (foretime::testing::fails("pread")) return -1;
  return ::syscall(SYS_pread64, file, bytes, count, offset);
}

ssize_t readlink(const char* path, char* target, size_t bytes) noexcept {
  if (foretime::testing::fails("readlink")) return -1;
  return ::syscall(SYS_readlinkat, AT_FDCWD, path, target, bytes);
}
}
