#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::jobs {

/// Paths that Redis gives to its append-only files, relative to the folder of an embedded Redis.
inline constexpr char kAppendOnlyFolder[] = "appendonlydir";
inline constexpr char kAofManifest[] = "appendonlydir/appendonly.aof.manifest";

/// A line of Redis' appendonly.aof.manifest: `file NAME seq N type T`.
struct AppendOnlyFile {
  std::string name{};
  int64_t sequence = 0;  // number of the file, from 1, counted separately for bases and increments
  char type = 'i';       // b: base, i: increment, h: file that a rewrite has replaced and Redis is about to remove
  bool operator==(const AppendOnlyFile&) const = default;
};
using AppendOnlyManifest = std::vector<AppendOnlyFile>;

/// Holds the same as AppendOnlyFile; `name` refers to the text that was parsed.
struct ManifestLine {
  std::string_view name{};
  int64_t sequence = 0;
  char type = 'i';
};
/// Parses a line `file NAME seq N type T` without its line end. Returns empty for any other text, a NAME with a slash,
/// an N below 1, or a T other than b, i and h. Async-signal-safe.
std::optional<ManifestLine> parse_manifest_line(std::string_view line);
/// Parses a manifest; lines that begin with # are skipped. Returns empty if parse_manifest_line() refuses another line.
std::optional<AppendOnlyManifest> parse_manifest(std::string_view text);
/// Returns the text of a manifest, one line for each file.
std::string manifest_text(const AppendOnlyManifest& manifest);

/// Returns the manifest that replaces `manifest` after a loss of power; empty if `manifest` is right or cannot be
/// repaired. Redis syncs its folder only after it has renamed the manifest, so the manifest may be on disk without the
/// files that it names. Two cases are repaired:
///
/// - The newest of several increments is missing: a rewrite had just opened that file, so it was empty. It is left out.
/// - The base is missing, but all files that it replaces (type h) exist: these files take their places again.
std::optional<AppendOnlyManifest> repaired_manifest(const AppendOnlyManifest& manifest,
                                                    const std::function<bool(const std::string& name)>& exists);

/// Returns the files of a manifest that was lost: the oldest base and the increments, oldest first. `names` are those
/// of the files in appendonlydir. Returns empty if a name is not Redis', if an increment is missing between two others,
/// or if there is no base and the first increment is not number 1; an empty manifest if there are no names.
std::optional<AppendOnlyManifest> manifest_of_files(const std::vector<std::string>& names);

}  // namespace foretime::jobs
