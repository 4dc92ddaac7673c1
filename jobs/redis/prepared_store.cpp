#include "jobs/redis/prepared_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "jobs/error.h"
#include "jobs/redis/append_only.h"
#include "jobs/redis/embedded_redis.h"

namespace foretime::jobs {
namespace {

constexpr char kAofManifestAside[] = "appendonlydir/temp-appendonly.aof.manifest";  // Redis' own name for it
constexpr char kFirstIncrement[] = "appendonly.aof.1.incr.aof";

std::string in_append_only(const std::string& name) { return std::string(kAppendOnlyFolder) + "/" + name; }

bool is_in(const EmbeddedFolder& folder, const std::string& name) {
  struct stat found {};
  if (fstatat(folder.descriptor(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT) return false;
  folder.fail_of(name + " cannot be examined", errno);
}

void sync_name(const EmbeddedFolder& folder, const std::string& name) {
  const auto file = folder.open_file(name, O_RDONLY);
  if (fsync(file.get()) != 0 && errno != EINVAL) folder.fail_of(name + " cannot be synced", errno);
}

void write_manifest(const EmbeddedFolder& folder, const AppendOnlyManifest& manifest) {
  const auto text = manifest_text(manifest);
  const auto file = folder.open_file(kAofManifestAside, O_WRONLY | O_CREAT | O_TRUNC);
  const int at = folder.descriptor();
  const auto written = write(file.get(), text.data(), text.size());
  if (written >= 0 && written < std::ssize(text)) errno = ENOSPC;
  if (written < std::ssize(text) || fsync(file.get()) != 0 || renameat(at, kAofManifestAside, at, kAofManifest) != 0)
    folder.fail_of("the manifest of the append-only file cannot be written", errno);
  sync_name(folder, kAppendOnlyFolder);
}

std::vector<std::string> names_in(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(path, failure), end; !failure && at != end; at.increment(failure))
    names.push_back(at->path().filename().string());
  return names;
}

/// Writes an empty append-only file, and all names that lead to it, to the disk.
void make_empty(const EmbeddedFolder& folder) {
  if (mkdirat(folder.descriptor(), kAppendOnlyFolder, 0700) != 0 && errno != EEXIST)
    folder.fail_of(fmt::format("{} cannot be made", kAppendOnlyFolder), errno);
  sync_name(folder, ".");
  for (auto above = folder.path().parent_path(); above.has_relative_path(); above = above.parent_path()) {
    try {
      files().sync_folder(above);
    } catch (const FileError&) {  // not ours: whoever made it may have synced it
    }
  }
  const auto first = folder.open_file(in_append_only(kFirstIncrement), O_RDWR | O_CREAT);
  sync_name(folder, kAppendOnlyFolder);
  write_manifest(folder, {{kFirstIncrement, 1, 'i'}});
}

/// Returns the manifest of a folder; empty where there is none, or a line of it is not as Redis writes it.
std::optional<AppendOnlyManifest> read_manifest(const EmbeddedFolder& folder) {
  if (!is_in(folder, kAofManifest)) return std::nullopt;
  const auto file = folder.open_file(kAofManifest, O_RDONLY);
  std::string text(64 << 10, '\0');  // Redis removes what was replaced, so it has a few lines
  const auto got = pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) folder.fail_of("the manifest of the append-only file cannot be read", errno);
  if (got == std::ssize(text)) return std::nullopt;
  text.resize(got);
  return parse_manifest(text);
}

/// Returns the names of the files in appendonlydir that hold data.
std::vector<std::string> data_files(const EmbeddedFolder& folder) {
  auto names = names_in(folder.path() / kAppendOnlyFolder);
  std::erase_if(names, [&](const std::string& name) {
    struct stat found {};
    const bool data = name.ends_with(".aof") || name.ends_with(".rdb");
    return !data || name.starts_with("temp-") ||
           fstatat(folder.descriptor(), in_append_only(name).c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 ||
           found.st_size == 0;
  });
  std::ranges::sort(names);
  return names;
}

[[noreturn]] void refuse_loss(const EmbeddedFolder& folder, const std::vector<std::string>& missing) {
  struct stat found {};
  const bool known = fstatat(folder.descriptor(), kStoreRecordFile, &found, AT_SYMLINK_NOFOLLOW) == 0;
  const auto when = known ? fmt::format(" than on {:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(found.st_mtim.tv_sec)) : "";
  throw RedisDataLost(
      "embedded Redis: {}: less of the queue is there{}: {}; jobs would be missing. Put the files back, "
      "from a backup for example, or continue with what is left: foretime queue --runs {} --accept-loss",
      folder.path().string(), when, fmt::join(missing, "; "), shell_word(folder.path().parent_path().string()));
}

/// Returns what the manifest names and is there, or without a manifest, all files; empty where the manifest can stay.
std::optional<AppendOnlyManifest> what_is_left(const EmbeddedFolder& folder,
                                               const std::optional<AppendOnlyManifest>& manifest) {
  if (!manifest && is_in(folder, kAofManifest)) return std::nullopt;  // Redis reports what is wrong with it
  auto names = data_files(folder);
  if (manifest) {
    names.clear();
    for (const auto& file : *manifest)
      if (file.type != 'h' && is_in(folder, in_append_only(file.name))) names.push_back(file.name);
  }
  const auto left = manifest_of_files(names);
  if (!left)
    folder.fail(
        fmt::format("the queue cannot be read from what is left, {}: remove the folder {}, and submit the jobs again",
                    fmt::join(names, ", "), folder.path().string()));
  if (names.empty()) make_empty(folder);
  return names.empty() ? std::nullopt : left;
}

void cut_zeros(const EmbeddedFolder& folder, const std::string& name) {
  const auto file = folder.open_file(name, O_RDWR);
  struct stat found {};
  if (fstat(file.get(), &found) != 0) folder.fail_of("the append-only file cannot be read", errno);
  std::array<char, 4096> piece{};
  off_t size = found.st_size;
  for (bool zeros = true; zeros && size > 0;) {
    const auto count = std::min<off_t>(size, piece.size());
    if (pread(file.get(), piece.data(), count, size - count) != count)
      folder.fail_of("the append-only file cannot be read", errno);
    off_t left = count;
    while (left > 0 && piece[left - 1] == '\0') --left;
    zeros = left == 0;
    size -= count - left;
  }
  if (size < found.st_size && ftruncate(file.get(), size) != 0)
    folder.fail_of("the append-only file cannot be cut", errno);
}

}  // namespace

PreparedStore prepare_append_only(const EmbeddedFolder& folder, bool accept_loss) {
  PreparedStore prepared;
  auto manifest = read_manifest(folder);
  const bool is_new = !manifest && !is_in(folder, kAofManifest) && data_files(folder).empty();
  std::optional<AppendOnlyManifest> better;
  if (manifest)
    better = repaired_manifest(*manifest, [&](const auto& name) { return is_in(folder, in_append_only(name)); });
  prepared.repaired_manifest = better.has_value();
  if (better) manifest = better;
  prepared.record = checked_record(folder, manifest, prepared.accepted_losses);
  if (!is_new && !is_in(folder, kAofManifest) && prepared.accepted_losses.empty())
    prepared.accepted_losses.push_back(fmt::format("{} is missing", kAofManifest));
  if (!prepared.accepted_losses.empty()) {
    if (!accept_loss) refuse_loss(folder, prepared.accepted_losses);
    if (unlinkat(folder.descriptor(), kStoreRecordFile, 0) != 0 && errno != ENOENT)
      folder.fail_of(fmt::format("{} cannot be removed", kStoreRecordFile), errno);
    prepared.record = {};
    better = what_is_left(folder, manifest);
  }
  if (is_new) make_empty(folder);
  if (better) write_manifest(folder, *better);
  for (const auto& name : names_in(folder.path() / kAppendOnlyFolder))
    if (name.ends_with(".incr.aof")) cut_zeros(folder, in_append_only(name));
  for (const auto& name : names_in(folder.path()))
    if (name.starts_with("temp-rewriteaof-") && name.ends_with(".aof")) unlinkat(folder.descriptor(), name.c_str(), 0);
  prepared.record.set_manifest(manifest_inode(folder.descriptor()));
  return prepared;
}

void check_nothing_lost(const EmbeddedFolder& folder) {
  std::vector<std::string> missing;
  checked_record(folder, read_manifest(folder), missing);
  if (!missing.empty()) refuse_loss(folder, missing);
}

}  // namespace foretime::jobs
