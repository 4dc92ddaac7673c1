#include "base/partial_files.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/text.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;

constexpr time_t kDay = 24 * 3600;

bool is_number(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

/// WRITING of PATH.WRITING[.NAME].foretime-tmp, for files beside PATH; empty for others.
std::string writing_of(const fs::path& file, const std::string& path_name) {
  const auto name = file.filename().string();
  if (!name.starts_with(path_name + '.') || !name.ends_with(kAsideSuffix)) return "";
  const auto rest = std::string_view(name).substr(path_name.size() + 1);
  const auto writing = rest.substr(0, rest.find('.'));
  const auto hyphen = writing.find('-');
  const bool ours = hyphen == std::string_view::npos
                        ? is_number(writing)
                        : is_number(writing.substr(0, hyphen)) && is_number(writing.substr(hyphen + 1));
  return ours ? std::string(writing) : "";
}

/// Beside a file.
std::vector<fs::path> neighbours(const fs::path& path) {
  const auto folder = path.parent_path();
  return files().list(folder.empty() ? "." : folder);
}

/// A file of a writing, locked by this process where it can be.
struct Probe {
  fs::path path;
  Descriptor file;
  bool locked;
  time_t changed;
};

/// Returns whether no process can be using a temporary file. `probe.file` stays open, so that no other process locks it
/// meanwhile.
bool is_dead(const Probe& probe, bool shared, time_t now) {
  return (probe.locked && !shared) || now - probe.changed > kDay;
}

/// Returns whether the path still names the examined file.
bool is_still(const Probe& probe) {
  struct stat looked_at {
  }, there{};
  return ::fstat(probe.file.get(), &looked_at) == 0 && ::lstat(probe.path.c_str(), &there) == 0 &&
         looked_at.st_ino == there.st_ino;
}

/// All files of a writing; empty where one of them is locked by somebody or cannot be examined.
std::vector<Probe> lock_all(const fs::path& path, const std::string& writing) {
  std::vector<Probe> probes;
  for (const auto& name : neighbours(path)) {
    if (writing_of(name, path.filename().string()) != writing) continue;
    Descriptor file(::open(name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.get() < 0 && errno == ENOENT) continue;
    struct stat status {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    const auto state = try_to_lock(file.get());
    if (state == LockState::held) return {};
    probes.push_back({name, std::move(file), state == LockState::taken, status.st_mtime});
  }
  return probes;
}

}  // namespace

bool is_partial_file_of(const fs::path& file, const std::string& name) {
  constexpr std::string_view kOld = ".old-";
  auto rest = file.filename().string();
  if (!writing_of(file, name).empty() || rest == name + kAsideSuffix) return true;
  if (!rest.starts_with(name) || !rest.ends_with(kAsideSuffix)) return false;
  rest = rest.substr(name.size(), rest.size() - name.size() - std::string_view(kAsideSuffix).size());
  return rest.starts_with(kOld) && is_number(std::string_view(rest).substr(kOld.size()));
}

bool lock_partial_file(int file, const fs::path& name) {
  if (try_to_lock(file) == LockState::held) return false;
  struct stat own {
  }, there{};
  return ::fstat(file, &own) != 0 || (::stat(name.c_str(), &there) == 0 && own.st_ino == there.st_ino);
}

void remove_dead_partial_files(const fs::path& path, int own) {
  struct stat status {};
  if (own < 0 || ::fstat(own, &status) != 0) return;
  const bool shared = is_shared(own);
  try {
    std::set<std::string> writings;
    for (const auto& file : neighbours(path)) writings.insert(writing_of(file, path.filename().string()));
    writings.erase("");
    for (const auto& writing : writings) {
      // The folder is listed again: a process locks its first file before it makes any other that the list above may
      // contain.
      const auto probes = lock_all(path, writing);
      if (std::ranges::all_of(probes, [&](const Probe& probe) { return is_dead(probe, shared, status.st_mtime); }))
        for (const auto& probe : probes)
          if (is_still(probe)) ::unlink(probe.path.c_str());
    }
  } catch (const FileError&) {
    // A folder that cannot be listed: whoever writes there will say so.
  }
}

}  // namespace foretime
