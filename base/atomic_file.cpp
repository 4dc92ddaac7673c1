#include "base/atomic_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/descriptor.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_write(const fs::path& path, const char* call) {
  throw FileError("{}: cannot be written: {}: {}", path.string(), call, std::strerror(errno));
}

/// Some file systems cannot sync folders, and some folders may be written but not read: neither is an error.
void sync_folder(const fs::path& path) {
  const Descriptor folder(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 && errno == EACCES) return;
  if (folder.get() < 0) fail_to_write(path, "open");
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail_to_write(path, "fsync");
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  for (int attempt = 0; !stream_; ++attempt) {  // another container's process may have this one's id
    aside_ = path_;
    aside_ += fmt::format(".{}-{}.foretime-tmp", ::getpid(), attempt);
    stream_.reset(std::fopen(aside_.c_str(), "wbxe"));
    if (!stream_ && errno != EEXIST) fail("open");
  }
}

AtomicFile::~AtomicFile() {
  if (!stream_) return;
  stream_.reset();
  ::unlink(aside_.c_str());
}

void AtomicFile::fail(const char* call) const { fail_to_write(path_, call); }

void AtomicFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream()) != bytes.size()) fail("write");
}

void AtomicFile::flush() {
  if (std::fflush(stream()) != 0) fail("write");
}

void AtomicFile::commit() {
  flush();
  if (::fsync(::fileno(stream())) != 0) fail("fsync");
  if (std::rename(aside_.c_str(), path_.c_str()) != 0) fail("rename");
  stream_.reset();
  sync_folder(path_.parent_path());
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_synced(const fs::path& path, std::string_view bytes) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "wbe"), &std::fclose);
  if (!file) fail_to_write(path, "open");
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size() || std::fflush(file.get()) != 0)
    fail_to_write(path, "write");
  if (::fsync(::fileno(file.get())) != 0) fail_to_write(path, "fsync");
}

void replace_folder(const fs::path& aside, const fs::path& path) {
  sync_folder(aside);
  std::error_code failure;
  fs::remove_all(path, failure);
  if (!failure) fs::rename(aside, path, failure);
  if (failure) throw FileError("{}: cannot be replaced: {}", path.string(), failure.message());
  sync_folder(path.parent_path());
}

}  // namespace foretime
