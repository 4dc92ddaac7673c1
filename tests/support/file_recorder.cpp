#include "tests/support/file_recorder.h"

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// The functions here also run between a fork and the end of the child: system calls, and nothing that allocates or
// locks.
namespace foretime::testing {
namespace {

using Kind = FileOperation::Kind;
using PathText = std::array<char, PATH_MAX>;

constexpr char kVariable[] = "FORETIME_FILE_RECORDER";  // folder, log and what is left out, with a line feed between
PathText recorded_folder, recorded_log, left_out;
size_t folder_length = 0;  // 0: nothing is recorded

struct Entry {
  char kind;
  uint32_t path, other, bytes;  // bytes of what follows
  uint64_t file;
  int64_t at;
};

void begin_recording(const char* text) {
  folder_length = 0;
  if (text == nullptr) return;
  for (auto* part : {&recorded_folder, &recorded_log, &left_out}) {
    const auto length = std::strcspn(text, "\n");
    if (length >= part->size()) return;
    std::memcpy(part->data(), text, length);
    (*part)[length] = '\0';
    text += length + (text[length] == '\n' ? 1 : 0);
  }
  folder_length = std::strlen(recorded_folder.data());
}

const bool begun = [] {
  begin_recording(std::getenv(kVariable));
  return true;
}();

bool is_recorded(const char* path) {
  if (folder_length == 0 || std::strncmp(path, recorded_folder.data(), folder_length) != 0) return false;
  if (path[folder_length] != '/' && path[folder_length] != '\0') return false;
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  const size_t length = std::strlen(name);
  // Between spaces in the list.
  for (const char* at = left_out.data(); (at = std::strstr(at, name)) != nullptr; at += length)
    if ((at == left_out.data() || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return false;
  return true;
}

/// Of a name that a call got with a descriptor of a folder. False: it is not recorded.
bool absolute(int folder, const char* path, PathText& found) {
  if (folder_length == 0) return false;
  size_t length = 0;
  if (path[0] != '/') {
    PathText link;
    if (folder == AT_FDCWD) std::strcpy(link.data(), "/proc/self/cwd");
    else std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", folder);
    const auto got = ::syscall(SYS_readlinkat, AT_FDCWD, link.data(), found.data(), found.size() - 1);
    if (got <= 0) return false;
    length = static_cast<size_t>(got);
    found[length++] = '/';
  }
  const auto rest = std::strlen(path);
  if (length + rest >= found.size()) return false;
  std::memcpy(found.data() + length, path, rest + 1);
  for (size_t end = length + rest; end > 1 && found[end - 1] == '/'; --end) found[end - 1] = '\0';
  return is_recorded(found.data());
}

/// Of an open file or folder.
bool path_of(int file, PathText& found, struct stat& status) {
  if (folder_length == 0 || ::syscall(SYS_fstat, file, &status) != 0) return false;
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return false;
  std::array<char, 64> link;
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  const auto got = ::syscall(SYS_readlinkat, AT_FDCWD, link.data(), found.data(), found.size() - 1);
  if (got <= 0) return false;
  found[static_cast<size_t>(got)] = '\0';
  return is_recorded(found.data());
}

void record(Kind kind, uint64_t file, int64_t at, const char* path, const char* other = "", const void* bytes = "",
            size_t count = 0) {
  const int before = errno;
  Entry entry{static_cast<char>(kind),
              static_cast<uint32_t>(std::strlen(path)),
              static_cast<uint32_t>(std::strlen(other)),
              static_cast<uint32_t>(count),
              file,
              at};
  const std::array<iovec, 4> parts = {{{&entry, sizeof entry},
                                       {const_cast<char*>(path), entry.path},
                                       {const_cast<char*>(other), entry.other},
                                       {const_cast<void*>(bytes), count}}};
  const auto log =
      ::syscall(SYS_openat, AT_FDCWD, recorded_log.data(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const auto size = static_cast<ssize_t>(sizeof entry + entry.path + entry.other + count);
  if (log < 0 || ::syscall(SYS_writev, log, parts.data(), parts.size()) != size) std::abort();
  ::syscall(SYS_close, log);
  errno = before;
}

int open_file(int folder, const char* path, int flags, mode_t mode) {
  PathText whole;
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
  const bool recorded = writes && absolute(folder, path, whole);
  const bool is_new = recorded && ::syscall(SYS_faccessat, AT_FDCWD, whole.data(), F_OK) != 0;
  const auto file = static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
  struct stat status {};
  if (recorded && file >= 0 && ::syscall(SYS_fstat, file, &status) == 0 && S_ISREG(status.st_mode))
    record(Kind::open, status.st_ino, (is_new ? 1 : 0) + ((flags & O_TRUNC) != 0 ? 2 : 0), whole.data());
  return file;
}

ssize_t written(int file, const void* bytes, ssize_t count, int64_t at) {
  PathText path;
  struct stat status {};
  if (count <= 0 || !path_of(file, path, status)) return count;
  if (at < 0) at = ::syscall(SYS_lseek, file, 0, SEEK_CUR) - count;
  record(Kind::write, status.st_ino, at, path.data(), "", bytes, static_cast<size_t>(count));
  return count;
}

int synced(int file, int outcome) {
  PathText path;
  struct stat status {};
  if (outcome == 0 && path_of(file, path, status)) record(Kind::sync, status.st_ino, 0, path.data());
  return outcome;
}

int rename_file(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  PathText first, second;
  const bool recorded = absolute(from_folder, from, first) && absolute(to_folder, to, second);
  const auto outcome = static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  if (recorded && outcome == 0) record(Kind::rename, 0, flags, first.data(), second.data());
  return outcome;
}

int unlink_file(int folder, const char* path, int flags) {
  PathText whole;
  const bool recorded = absolute(folder, path, whole);
  const auto outcome = static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
  if (recorded && outcome == 0) record(Kind::unlink, 0, 0, whole.data());
  return outcome;
}

int make_folder(int folder, const char* path, mode_t mode) {
  PathText whole;
  const bool recorded = absolute(folder, path, whole);
  const auto outcome = static_cast<int>(::syscall(SYS_mkdirat, folder, path, mode));
  if (recorded && outcome == 0) record(Kind::folder, 0, 0, whole.data());
  return outcome;
}

int truncated(int file, int64_t size, int outcome) {
  PathText path;
  struct stat status {};
  if (outcome == 0 && path_of(file, path, status)) record(Kind::truncate, status.st_ino, size, path.data());
  return outcome;
}

/// Files of stdio that write by the functions above: the C library calls its own. fileno() has to know them.
std::array<std::pair<FILE*, int>, 64> streams;

FILE* open_stream(const char* path, const char* mode, const char* symbol) {
  PathText whole;
  if ((mode[0] != 'w' && mode[0] != 'a') || !absolute(AT_FDCWD, path, whole)) {
    using Open = FILE* (*)(const char*, const char*);
    return reinterpret_cast<Open>(::dlsym(RTLD_NEXT, symbol))(path, mode);
  }
  const int file = open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | (mode[0] == 'w' ? O_TRUNC : O_APPEND), 0666);
  if (file < 0) return nullptr;
  cookie_io_functions_t calls{};
  calls.write = [](void* cookie, const char* bytes, size_t count) -> ssize_t {
    const int to = static_cast<int>(reinterpret_cast<intptr_t>(cookie));
    return written(to, bytes, ::syscall(SYS_write, to, bytes, count), -1);
  };
  calls.seek = [](void* cookie, off64_t* offset, int whence) {
    *offset = ::syscall(SYS_lseek, static_cast<int>(reinterpret_cast<intptr_t>(cookie)), *offset, whence);
    return *offset < 0 ? -1 : 0;
  };
  calls.close = [](void* cookie) {
    const int closed = static_cast<int>(reinterpret_cast<intptr_t>(cookie));
    for (auto& [stream, descriptor] : streams)
      if (stream != nullptr && descriptor == closed) stream = nullptr;
    return static_cast<int>(::syscall(SYS_close, closed));
  };
  FILE* stream = ::fopencookie(reinterpret_cast<void*>(static_cast<intptr_t>(file)), mode, calls);
  for (auto& entry : streams) {
    if (entry.first != nullptr) continue;
    entry = {stream, file};
    return stream;
  }
  std::abort();
}

}  // namespace

FileRecorder::FileRecorder(const std::filesystem::path& folder, const std::filesystem::path& log,
                           const std::string& without)
    : log_(log) {
  const auto text = folder.string() + "\n" + log.string() + "\n" + without;
  begin_recording(text.c_str());
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&begin_recording), &here) == 0 || folder_length == 0)
    throw std::runtime_error("the recorder of files does not know where it is");
  ::setenv(kVariable, text.c_str(), 1);
  ::setenv("LD_PRELOAD", here.dli_fname, 1);
}

FileRecorder::~FileRecorder() {
  begin_recording(nullptr);
  ::unsetenv(kVariable);
  ::unsetenv("LD_PRELOAD");
}

void FileRecorder::mark(int64_t number) { record(Kind::mark, 0, number, ""); }

std::vector<FileOperation> FileRecorder::operations() const {
  std::ostringstream text;
  text << std::ifstream(log_, std::ios::binary).rdbuf();
  const auto all = text.str();
  std::vector<FileOperation> found;
  for (size_t at = 0; at + sizeof(Entry) <= all.size();) {
    Entry entry{};
    std::memcpy(&entry, all.data() + at, sizeof entry);
    at += sizeof entry;
    const auto take = [&](size_t count) { return all.substr(std::exchange(at, at + count), count); };
    FileOperation operation{static_cast<Kind>(entry.kind), entry.file, entry.at, {}, {}, {}};
    operation.path = take(entry.path);
    operation.other = take(entry.other);
    operation.bytes = take(entry.bytes);
    found.push_back(std::move(operation));
  }
  return found;
}

}  // namespace foretime::testing

// The C library's, with the names that Debian's redis-server and our own code call.
extern "C" {
using namespace foretime::testing;  // NOLINT: nothing else stands here

#define FORETIME_MODE()                       \
  mode_t mode = 0;                            \
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list list;                             \
    va_start(list, flags);                    \
    mode = va_arg(list, mode_t);              \
    va_end(list);                             \
  }

int open(const char* path, int flags, ...) {
  FORETIME_MODE()
  return open_file(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  FORETIME_MODE()
  return open_file(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  FORETIME_MODE()
  return open_file(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  FORETIME_MODE()
  return open_file(folder, path, flags, mode);
}
#undef FORETIME_MODE

FILE* fopen(const char* path, const char* mode) { return open_stream(path, mode, "fopen"); }
FILE* fopen64(const char* path, const char* mode) { return open_stream(path, mode, "fopen64"); }
int fileno(FILE* stream) noexcept {
  for (const auto& [known, descriptor] : streams)
    if (known == stream) return descriptor;
  return stream->_fileno;
}

ssize_t write(int file, const void* bytes, size_t count) {
  return written(file, bytes, ::syscall(SYS_write, file, bytes, count), -1);
}
ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) {
  return written(file, bytes, ::syscall(SYS_pwrite64, file, bytes, count, at), at);
}
ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t at) {
  return written(file, bytes, ::syscall(SYS_pwrite64, file, bytes, count, at), at);
}

int fsync(int file) { return synced(file, static_cast<int>(::syscall(SYS_fsync, file))); }
int fdatasync(int file) { return synced(file, static_cast<int>(::syscall(SYS_fdatasync, file))); }

int rename(const char* from, const char* to) noexcept { return rename_file(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return rename_file(from_folder, from, to_folder, to, 0);
}
int unlink(const char* path) noexcept { return unlink_file(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char* path, int flags) noexcept { return unlink_file(folder, path, flags); }
int mkdir(const char* path, mode_t mode) noexcept { return make_folder(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char* path, mode_t mode) noexcept { return make_folder(folder, path, mode); }
int ftruncate(int file, off_t size) noexcept {
  return truncated(file, size, static_cast<int>(::syscall(SYS_ftruncate, file, size)));
}
int ftruncate64(int file, off64_t size) noexcept {
  return truncated(file, size, static_cast<int>(::syscall(SYS_ftruncate, file, size)));
}
}
