#include "base/foreign_file.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/text.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 1 << 16, kLongestLine = 1 << 20;

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "not a file";
}

[[noreturn]] void refuse(const fs::path& path, const std::string& found, const std::string& expected) {
  throw ForeignFileError("{}: found {}, expected {}", path.string(), found, expected);
}

void refuse_kind(const fs::path& path, mode_t mode) {
  if (!S_ISREG(mode)) refuse(path, kind_of(mode), "a regular file");
}

void refuse_size(const fs::path& path, uint64_t found, uint64_t most_bytes) {
  if (found > most_bytes) refuse(path, fmt::format("{} bytes", found), fmt::format("at most {}", most_bytes));
}

/// The parts of a name below a folder. Throws ForeignFileError if it may leave the folder.
std::vector<std::string> parts_of(const fs::path& folder, const fs::path& name) {
  std::vector<std::string> parts;
  for (const auto& part : name) {
    const auto& text = part.native();
    if (text == ".." || text == "/" || text.find('\0') != std::string::npos)
      refuse(folder, fmt::format("the name '{}'", printable_utf8(name.string())), "a name of a file below this folder");
    if (!text.empty() && text != ".") parts.push_back(text);
  }
  if (parts.empty()) refuse(folder, "a folder", "a regular file");
  return parts;
}

class RealInputFile final : public InputFile {
 public:
  RealInputFile(fs::path path, Descriptor file, uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  size_t read(std::span<char> buffer) override {
    size_t filled = 0;
    while (filled < buffer.size()) {
      const ssize_t got = TEMP_FAILURE_RETRY(::read(file_.get(), buffer.data() + filled, buffer.size() - filled));
      if (got < 0) throw_file_error(path_, "cannot be read: read", errno);
      if (got == 0) break;
      filled += got;
    }
    return filled;
  }
  uint64_t size() const override { return size_; }
  int descriptor() const override { return file_.get(); }

 private:
  fs::path path_;
  Descriptor file_;
  uint64_t size_;
};

/// The folder that holds the last part of a name.
struct Place {
  Descriptor folder;   // O_PATH; of no file if it does not exist
  std::string name;    // name in `folder`
  fs::path path;       // whole path, for messages
  fs::path link = {};  // the component that is a symbolic link, if one ended the walk
};

/// Walks to the folder of the last part, one component at a time and through no link: openat2() would do this in one
/// call, but old kernels and many containers refuse it, and this way there is one behaviour.
Place walk(const fs::path& folder, const fs::path& name) {
  auto parts = parts_of(folder, name);
  Place place{.folder = Descriptor(::open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
              .name = std::move(parts.back()),
              .path = folder / name};
  parts.pop_back();
  if (place.folder.get() < 0 && errno != ENOENT && errno != ENOTDIR)
    throw_file_error(folder, "cannot be read: open", errno);
  auto walked = folder;
  for (const auto& part : parts) {
    if (place.folder.get() < 0) break;
    walked /= part;
    Descriptor next(::openat(place.folder.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const int error = next.get() < 0 ? errno : 0;
    if (error == ENOTDIR || error == ELOOP) {
      struct stat status {};
      const bool known = ::fstatat(place.folder.get(), part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
      // A folder that was a link a moment ago is no better.
      if (known && (S_ISLNK(status.st_mode) || S_ISDIR(status.st_mode))) place.link = walked;
    } else if (error != 0 && error != ENOENT) {
      throw_file_error(walked, "cannot be read: open", error);
    }
    place.folder = std::move(next);
  }
  return place;
}

/// Returns the status of the entry itself, without following links; nullopt if it does not exist.
std::optional<struct stat> status_of(const fs::path& folder, const fs::path& name) {
  const auto place = walk(folder, name);
  struct stat status {};
  if (place.folder.get() < 0) return std::nullopt;
  if (::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (is_storage_failure(errno)) throw_file_error(place.path, "cannot be read: stat", errno);
  return std::nullopt;
}

/// Reads a file of a simulated file system from memory.
class MemoryInputFile final : public InputFile {
 public:
  explicit MemoryInputFile(std::string bytes) : bytes_(std::move(bytes)) {}
  size_t read(std::span<char> buffer) override {
    const auto count = bytes_.copy(buffer.data(), buffer.size(), position_);
    position_ += count;
    return count;
  }
  uint64_t size() const override { return bytes_.size(); }

 private:
  std::string bytes_;
  size_t position_ = 0;
};

}  // namespace

std::unique_ptr<InputFile> Files::open_below(const Path& folder, const Path& name) {
  parts_of(folder, name);
  const auto path = folder / name;
  if (!exists(path)) return nullptr;
  if (is_folder(path)) refuse_kind(path, S_IFDIR);
  return std::make_unique<MemoryInputFile>(read(path));
}

bool Files::exists_below(const Path& folder, const Path& name) {
  parts_of(folder, name);
  return exists(folder / name);
}

std::unique_ptr<InputFile> open_real_below(const fs::path& folder, const fs::path& name) {
  const auto place = walk(folder, name);
  if (!place.link.empty()) refuse(place.link, "a symbolic link", "a folder");
  if (place.folder.get() < 0) return nullptr;
  struct stat status {};
  // A device must not even be opened: that alone can rewind a tape or start a watchdog.
  if (::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return nullptr;
    throw_file_error(place.path, "cannot be read: stat", errno);
  }
  refuse_kind(place.path, status.st_mode);
  Descriptor file(
      ::openat(place.folder.get(), place.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return nullptr;
    // The file was exchanged since: ELOOP is what a link gives, ENXIO a socket or a FIFO.
    if (errno == ELOOP || errno == ENXIO) refuse(place.path, "a link or socket", "a regular file");
    if (errno == EWOULDBLOCK) refuse(place.path, "a file that another process has leased", "one that can be opened");
    throw_file_error(place.path, "cannot be read: open", errno);
  }
  if (::fstat(file.get(), &status) != 0) throw_file_error(place.path, "cannot be read: fstat", errno);
  refuse_kind(place.path, status.st_mode);
  return std::make_unique<RealInputFile>(place.path, std::move(file), static_cast<uint64_t>(status.st_size));
}

bool real_exists_below(const fs::path& folder, const fs::path& name) { return status_of(folder, name).has_value(); }

std::optional<fs::file_time_type> foreign_write_time(const fs::path& folder, const fs::path& name) {
  try {
    const auto status = status_of(folder, name);
    if (!status) return std::nullopt;
    const auto since_epoch =
        std::chrono::seconds(status->st_mtim.tv_sec) + std::chrono::nanoseconds(status->st_mtim.tv_nsec);
    return std::chrono::file_clock::from_sys(std::chrono::sys_time<std::chrono::nanoseconds>(since_epoch));
  } catch (const StorageError&) {
    throw;
  } catch (const FileError&) {
    return std::nullopt;
  }
}

std::unique_ptr<InputFile> open_foreign(const fs::path& folder, const fs::path& name, uint64_t most_bytes) {
  auto file = files().open_below(folder, name);
  if (file) refuse_size(folder / name, file->size(), most_bytes);
  return file;
}

bool foreign_exists(const fs::path& folder, const fs::path& name) {
  try {
    return files().exists_below(folder, name);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError&) {  // a name that leaves the folder, a folder that may not be searched
    return false;
  }
}

std::optional<std::string> read_foreign(const fs::path& folder, const fs::path& name, uint64_t most_bytes) {
  const auto file = open_foreign(folder, name, most_bytes);
  if (!file) return std::nullopt;
  std::string bytes(file->size(), '\0');
  bytes.resize(file->read(bytes));
  std::array<char, kPiece> piece;  // a log or history that its job writes grows meanwhile
  while (const auto got = file->read(piece)) {
    bytes.append(piece.data(), got);
    refuse_size(folder / name, bytes.size(), most_bytes);
  }
  return bytes;
}

bool read_foreign_lines(const fs::path& folder, const fs::path& name, uint64_t most_bytes,
                        const std::function<void(std::string_view line)>& take) {
  const auto file = open_foreign(folder, name, most_bytes);
  if (!file) return false;
  LineSplitter lines(kLongestLine, false);
  const auto take_whole = [&](const std::string& line, bool cut) {
    if (!cut) take(line);
  };
  std::array<char, kPiece> piece;
  uint64_t total = 0;
  while (const auto got = file->read(piece)) {
    refuse_size(folder / name, total += got, most_bytes);
    lines.feed({piece.data(), got}, take_whole);
  }
  lines.finish(take_whole);
  return true;
}

}  // namespace foretime
