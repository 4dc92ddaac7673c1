#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::jobs {

/// Names in the folder of an embedded Redis, as Redis gives them.
inline constexpr char kAppendOnlyFolder[] = "appendonlydir";
inline constexpr char kAofManifest[] = "appendonlydir/appendonly.aof.manifest";

/// A line of Redis' appendonly.aof.manifest: `file NAME seq N type T`.
struct AppendOnlyFile {
  std::string name{};
  int64_t sequence = 0;  // counted from 1, separately for bases and increments
  char type = 'i';       // b: base, i: increment, h: was replaced by a rewrite and is about to be removed
  bool operator==(const AppendOnlyFile&) const = default;
};
using AppendOnlyManifest = std::vector<AppendOnlyFile>;

/// A line of the manifest that was not copied.
struct ManifestLine {
  std::string_view name{};
  int64_t sequence = 0;
  char type = 'i';
};
/// Reads a line; empty where it is not as above. Async-signal-safe.
std::optional<ManifestLine> parse_manifest_line(std::string_view line);
/// Reads a manifest; empty where a line is not as above.
std::optional<AppendOnlyManifest> parse_manifest(std::string_view text);
std::string manifest_text(const AppendOnlyManifest& manifest);

/// Returns what a manifest should say after a loss of power; empty: it is right as it is, or nobody can know. Redis
/// syncs its folder only after it has renamed the manifest, so POSIX lets the manifest arrive without the files that it
/// names:
///
/// - an increment that a rewrite has just opened: nothing was written to it yet, and it is left out;
/// - the new base: the files that it replaces are all there, and take their places again.
std::optional<AppendOnlyManifest> repaired_manifest(const AppendOnlyManifest& manifest,
                                                    const std::function<bool(const std::string& name)>& exists);

/// Returns the files of a manifest that was lost: the oldest base and the increments, oldest first. `names` are those
/// of the files in appendonlydir. Empty where these cannot be all of its files: an increment is missing between others,
/// or before the first one where there is no base.
std::optional<AppendOnlyManifest> manifest_of_files(const std::vector<std::string>& names);

}  // namespace foretime::jobs
