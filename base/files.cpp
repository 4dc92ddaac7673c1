#include "base/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/foreign_file.h"
#include "base/index_range.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;

thread_local Files* current_files = nullptr;

std::mutex owned_folders_mutex;
std::vector<fs::path> owned_folders;

/// Compares names alone: the folder itself may be gone.
bool is_below_owned_folder(const fs::path& path) {
  const std::lock_guard lock(owned_folders_mutex);
  return std::ranges::any_of(owned_folders, [&](const fs::path& folder) {
    const auto below = path.lexically_normal().lexically_relative(folder);
    return !below.empty() && *below.begin() != "..";
  });
}

class RealOutputFile final : public OutputFile {
 public:
  RealOutputFile(fs::path path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_write_error(path_, "cannot be written: write", errno);
      bytes.remove_prefix(written);
    }
  }
  void seek(uint64_t offset) override {
    if (::lseek(file_.get(), offset, SEEK_SET) < 0) throw_write_error(path_, "cannot be written: lseek", errno);
  }
  void sync() override {
    if (::fsync(file_.get()) != 0) throw_write_error(path_, "cannot be written: fsync", errno);
  }
  void close() override {
    if (::close(file_.release()) != 0 && errno != EINTR) throw_write_error(path_, "cannot be written: close", errno);
  }
  int descriptor() const override { return file_.get(); }

 private:
  fs::path path_;
  Descriptor file_;
};

class RealFiles final : public Files {
 public:
  std::unique_ptr<OutputFile> open(const Path& path, Open how) override {
    constexpr std::array kFlags = {O_TRUNC, O_EXCL, O_APPEND};
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | kFlags[index_of(how)], 0666));
    if (file.get() < 0 && errno == EEXIST && how == Open::create) return nullptr;
    if (file.get() < 0) throw_write_error(path, "cannot be written: open", errno);
    return std::make_unique<RealOutputFile>(path, std::move(file));
  }

  std::string read(const Path& path) override {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw_file_error(path, "cannot be read: open", errno);
    struct stat status {};
    std::string bytes;
    if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) bytes.reserve(status.st_size);
    std::array<char, 1 << 16> piece;
    for (;;) {
      const ssize_t got = ::read(file.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_file_error(path, "cannot be read: read", errno);
      if (got == 0) return bytes;
      bytes.append(piece.data(), got);
    }
  }

  bool exists(const Path& path) override {
    return is(path, [](const fs::file_status& status) { return fs::exists(status); });
  }
  bool is_folder(const Path& path) override {
    return is(path, [](const fs::file_status& status) { return fs::is_directory(status); });
  }

  std::vector<Path> list(const Path& folder) override {
    std::vector<Path> found;
    std::error_code failure;
    for (fs::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure))
      found.push_back(at->path());
    if (failure && failure != std::errc::no_such_file_or_directory)
      throw_write_error(folder, "cannot be listed", failure.value());
    std::ranges::sort(found);
    return found;
  }

  bool is_empty(const Path& folder) override {
    std::error_code failure;
    const fs::directory_iterator first(folder, failure);
    if (failure && failure != std::errc::no_such_file_or_directory)
      throw_write_error(folder, "cannot be listed", failure.value());
    return failure || first == fs::directory_iterator();
  }
  uint64_t size(const Path& path) override {
    std::error_code failure;
    const auto bytes = fs::file_size(path, failure);
    if (failure) fail(path, "cannot be read", failure);
    return bytes;
  }

  std::unique_ptr<InputFile> open_below(const Path& folder, const Path& name) override {
    return open_real_below(folder, name);
  }
  bool exists_below(const Path& folder, const Path& name) override { return real_exists_below(folder, name); }

  void create_folders(const Path& path) override {
    std::error_code failure;
    fs::create_directories(path, failure);
    if (failure) throw_write_error(path, "cannot be created", failure.value());
  }
  bool create_folder(const Path& path) override {
    std::error_code failure;
    const bool created = fs::create_directory(path, failure);
    if (failure) throw_write_error(path, "cannot be created", failure.value());
    return created;
  }
  void rename(const Path& from, const Path& to) override {
    std::error_code failure;
    fs::rename(from, to, failure);
    if (failure) throw_write_error(to, "cannot be replaced", failure.value());
  }
  bool exchange(const Path& a, const Path& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
    throw_write_error(b, "cannot be replaced: rename", errno);
  }
  bool link(const Path& from, const Path& to) override {
    std::error_code failure;
    fs::create_hard_link(from, to, failure);
    return !failure;
  }
  void remove(const Path& path) override {
    std::error_code failure;
    fs::remove_all(path, failure);
    if (failure) throw_write_error(path, "cannot be removed", failure.value());
  }

  /// Syncs a folder. It ignores file systems that cannot sync folders, and folders that may be written but not read.
  void sync_folder(const Path& path) override {
    const Descriptor folder(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 && errno == EACCES) return;
    if (folder.get() < 0) throw_write_error(path, "cannot be written: open", errno);
    if (::fsync(folder.get()) != 0 && errno != EINVAL) throw_write_error(path, "cannot be written: fsync", errno);
  }

 private:
  [[noreturn]] static void fail(const Path& path, const char* doing, const std::error_code& failure) {
    throw_file_error(path, doing, failure.value());
  }
  template <class Test>
  static bool is(const Path& path, const Test& test) {
    std::error_code failure;
    const auto status = fs::status(path, failure);
    if (failure && is_storage_failure(failure.value())) fail(path, "cannot be read", failure);
    return test(status);
  }
};

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown);
}

ScratchFolder::ScratchFolder(const fs::path& beginning) {
  auto name = beginning.string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw_file_error(name, "cannot be made", errno);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

bool is_storage_failure(int error) {
  // EUCLEAN and EBADMSG: a file system that found itself damaged.
  constexpr std::array kErrors = {ENOSPC, EDQUOT, EIO,    EROFS,   ESTALE,  EREMOTEIO, ETIMEDOUT, ENOTCONN,     ENXIO,
                                  ENODEV, ENFILE, EMFILE, EUCLEAN, EBADMSG, EHOSTDOWN, ESHUTDOWN, ECONNABORTED, EFBIG};
  return std::ranges::find(kErrors, error) != kErrors.end();
}

void throw_file_error(const fs::path& path, const std::string& doing, int error) {
  auto meant = path;  // PATH.PID-NUMBER.foretime-tmp is where PATH is written first
  if (path.extension() == kAsideSuffix && path.stem().extension().string().find('-') != std::string::npos)
    meant.replace_extension().replace_extension();
  const auto message = fmt::format("{}: {}: {}", meant.string(), doing, std::strerror(error));
  constexpr std::array kUnreachable = {ESTALE, ETIMEDOUT, ENOTCONN,  ENXIO,     ENODEV,
                                       ENFILE, EMFILE,    EHOSTDOWN, ESHUTDOWN, ECONNABORTED};
  if (std::ranges::find(kUnreachable, error) != kUnreachable.end()) throw UnreachableError(message);
  if (is_storage_failure(error)) throw StorageError(message);
  if (error == ENOMEM) throw FileMemoryError(message);
  throw FileError(message);
}

OwnedFolder::OwnedFolder(const fs::path& folder) : folder_(folder.lexically_normal()) {
  const std::lock_guard lock(owned_folders_mutex);
  owned_folders.push_back(folder_);
}

OwnedFolder::~OwnedFolder() {
  const std::lock_guard lock(owned_folders_mutex);
  owned_folders.erase(std::ranges::find(owned_folders, folder_));
}

void throw_write_error(const fs::path& path, const std::string& doing, int error) {
  try {
    throw_file_error(path, doing, error);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError& failure) {
    if (is_below_owned_folder(path)) throw StorageError(failure.what());
    throw;
  }
}

Files& real_files() {
  static RealFiles files;
  return files;
}

Files& files() { return current_files != nullptr ? *current_files : real_files(); }

FilesScope::FilesScope(Files& files) : before_(std::exchange(current_files, &files)) {}
FilesScope::~FilesScope() { current_files = before_; }

}  // namespace foretime
