#include "base/message.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/files.h"

namespace foretime {
namespace {

/// Returns whether an errno of write() means that the stream has no reader any more: a pipe without a reader, or a
/// closed terminal.
bool has_no_reader(int error) { return error == EPIPE || error == EIO || error == ENXIO; }

bool is_pipe_without_reader(int descriptor) {
  pollfd end{descriptor, 0, 0};
  return ::poll(&end, 1, 0) > 0 && (end.revents & POLLERR) != 0;
}

void discard(std::FILE* stream) {
  const Descriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (null.get() >= 0) ::dup2(null.get(), ::fileno(stream));
  std::clearerr(stream);
  std::fflush(stream);  // discards the unwritten rest
}

void flush(std::FILE* stream) {
  if (std::fflush(stream) != 0 && has_no_reader(errno)) discard(stream);
}

}  // namespace

void show(std::FILE* stream, std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stream) < text.size() && has_no_reader(errno)) discard(stream);
  flush(stream);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  if (errno == EPIPE || is_pipe_without_reader(STDOUT_FILENO))  // the write that failed may be some time ago
    throw std::system_error(EPIPE, std::generic_category(), "standard output");
  if (errno != 0) throw_file_error("standard output", "cannot be written", errno);
  throw StorageError("standard output: cannot be written");
}

void print_message(std::string_view text) {
  flush(stdout);
  show(stderr, text);
}

}  // namespace foretime
