#include "jobs/redis/append_only.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "jobs/redis/embedded_redis.h"

namespace foretime::jobs {
namespace {

constexpr char kAppendOnlyFolder[] = "appendonlydir";
constexpr char kAofManifest[] = "appendonlydir/appendonly.aof.manifest";
constexpr char kAofManifestAside[] = "appendonlydir/temp-appendonly.aof.manifest";  // Redis' own name for it
constexpr char kFirstIncrement[] = "appendonly.aof.1.incr.aof";

std::string in_append_only(const std::string& name) { return std::string(kAppendOnlyFolder) + "/" + name; }

bool is_in(const EmbeddedFolder& folder, const std::string& name) {
  struct stat found {};
  if (fstatat(folder.descriptor(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT) return false;
  folder.fail_of(name + " cannot be looked at", errno);
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
  if (written >= 0 && written < static_cast<ssize_t>(text.size())) errno = ENOSPC;
  if (written < static_cast<ssize_t>(text.size()) || fsync(file.get()) != 0 ||
      renameat(at, kAofManifestAside, at, kAofManifest) != 0)
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

/// An empty append-only file, and all names that lead to it, on disk.
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
  // A server of an earlier version, or one that somebody else started, may have begun here.
  for (const auto& name : names_in(folder.path() / kAppendOnlyFolder))
    if (name.ends_with(".incr.aof") && name != kFirstIncrement) return;
  const auto first = folder.open_file(in_append_only(kFirstIncrement), O_RDWR | O_CREAT);
  struct stat found {};
  if (fstat(first.get(), &found) != 0) folder.fail_of("the append-only file cannot be read", errno);
  if (found.st_size > 0) return;
  sync_name(folder, kAppendOnlyFolder);
  write_manifest(folder, {{kFirstIncrement, 1, 'i'}});
}

/// Whether it had to be mended.
bool mend_manifest(const EmbeddedFolder& folder) {
  const auto file = folder.open_file(kAofManifest, O_RDONLY);
  std::string text(64 << 10, '\0');  // Redis removes what was replaced, so it has a few lines
  const auto got = pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) folder.fail_of("the manifest of the append-only file cannot be read", errno);
  if (static_cast<size_t>(got) == text.size()) return false;
  text.resize(static_cast<size_t>(got));
  const auto manifest = parse_manifest(text);
  if (!manifest) return false;  // Redis says what is wrong with it
  const auto better = mended(*manifest, [&](const auto& name) { return is_in(folder, in_append_only(name)); });
  if (better) write_manifest(folder, *better);
  return better.has_value();
}

void cut_zeros(const EmbeddedFolder& folder, const std::string& name) {
  const auto file = folder.open_file(name, O_RDWR);
  struct stat found {};
  if (fstat(file.get(), &found) != 0) folder.fail_of("the append-only file cannot be read", errno);
  std::array<char, 4096> piece{};
  off_t size = found.st_size;
  for (bool zeros = true; zeros && size > 0;) {
    const auto count = std::min<off_t>(size, static_cast<off_t>(piece.size()));
    if (pread(file.get(), piece.data(), static_cast<size_t>(count), size - count) != count)
      folder.fail_of("the append-only file cannot be read", errno);
    off_t left = count;
    while (left > 0 && piece[static_cast<size_t>(left - 1)] == '\0') --left;
    zeros = left == 0;
    size -= count - left;
  }
  if (size < found.st_size && ftruncate(file.get(), size) != 0)
    folder.fail_of("the append-only file cannot be cut", errno);
}

}  // namespace

std::optional<AppendOnlyManifest> parse_manifest(std::string_view text) {
  AppendOnlyManifest manifest;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string file, seq, type, kind, rest;
    AppendOnlyFile found;
    if (!(words >> file >> found.name >> seq >> found.sequence >> type >> kind) || words >> rest) return std::nullopt;
    if (file != "file" || seq != "seq" || type != "type" || kind.size() != 1 || found.sequence < 1 ||
        found.name.find('/') != std::string::npos)
      return std::nullopt;
    found.type = kind.front();
    if (found.type != 'b' && found.type != 'i' && found.type != 'h') return std::nullopt;
    manifest.push_back(found);
  }
  return manifest;
}

std::string manifest_text(const AppendOnlyManifest& manifest) {
  std::string text;
  for (const auto& file : manifest)
    text += fmt::format("file {} seq {} type {}\n", file.name, file.sequence, file.type);
  return text;
}

std::optional<AppendOnlyManifest> mended(const AppendOnlyManifest& manifest,
                                         const std::function<bool(const std::string& name)>& exists) {
  const auto of_type = [&](char type) {
    AppendOnlyManifest found;
    for (const auto& file : manifest)
      if (file.type == type) found.push_back(file);
    return found;
  };
  const auto bases = of_type('b'), increments = of_type('i');
  if (bases.empty() || exists(bases.front().name)) {
    if (increments.size() < 2 || exists(increments.back().name)) return std::nullopt;
    auto left = manifest;
    std::erase(left, increments.back());
    return left;
  }
  AppendOnlyManifest again, parts;
  const auto replaced = of_type('h');
  if (replaced.empty()) return std::nullopt;
  for (auto file : replaced) {
    if (!exists(file.name)) return std::nullopt;
    file.type = file.name.find(".base.") != std::string::npos ? 'b' : 'i';
    (file.type == 'b' ? again : parts).push_back(file);
  }
  std::ranges::sort(parts, {}, &AppendOnlyFile::sequence);
  parts.insert(parts.end(), increments.begin(), increments.end());
  // All of what was replaced, or some of it would be forgotten without a word.
  const bool from_the_start = again.size() == 1 || (again.empty() && !parts.empty() && parts.front().sequence == 1);
  const auto gap =
      std::ranges::adjacent_find(parts, [](const auto& a, const auto& b) { return b.sequence != a.sequence + 1; });
  if (!from_the_start || gap != parts.end()) return std::nullopt;
  again.insert(again.end(), parts.begin(), parts.end());
  return again;
}

bool prepare_append_only(const EmbeddedFolder& folder) {
  if (!is_in(folder, kAofManifest)) make_empty(folder);
  const bool mended = is_in(folder, kAofManifest) && mend_manifest(folder);
  for (const auto& name : names_in(folder.path() / kAppendOnlyFolder))
    if (name.ends_with(".incr.aof")) cut_zeros(folder, in_append_only(name));
  for (const auto& name : names_in(folder.path()))
    if (name.starts_with("temp-rewriteaof-") && name.ends_with(".aof")) unlinkat(folder.descriptor(), name.c_str(), 0);
  return mended;
}

}  // namespace foretime::jobs
