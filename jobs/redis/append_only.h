#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::jobs {

class EmbeddedFolder;

/// A line of Redis' appendonly.aof.manifest: `file NAME seq N type T`.
struct AppendOnlyFile {
  std::string name{};
  int64_t sequence = 0;  // from 1; bases and increments are counted apart
  char type = 'i';       // b: base, i: increment, h: was replaced by a rewrite and is about to be removed
  bool operator==(const AppendOnlyFile&) const = default;
};
using AppendOnlyManifest = std::vector<AppendOnlyFile>;

/// Empty where a line is not as above.
std::optional<AppendOnlyManifest> parse_manifest(std::string_view text);
std::string manifest_text(const AppendOnlyManifest& manifest);

/// What a manifest has to say after a loss of power; empty: it is right as it is, or nothing can be said. Redis syncs
/// its folder only after it has renamed the manifest, so POSIX lets the manifest arrive without the files that it
/// names:
///
/// - an increment that a rewrite has just opened: nothing was written to it yet, and it is left out;
/// - the new base: the files that it replaces are all there, and take their places again.
std::optional<AppendOnlyManifest> mended(const AppendOnlyManifest& manifest,
                                         const std::function<bool(const std::string& name)>& exists);

/// Makes the append-only file of a folder fit for a server, whatever a loss of power has left. No server may run.
/// Where there is none, an empty one is made, whose name is on disk before anything is written to it, which Redis does
/// not see to. The manifest is mended. Zero bytes at the ends of increments are cut: some file systems leave them
/// there, what Redis writes never ends with one, and it refuses to load them. What a rewrite had begun is removed.
/// Returns whether the manifest was mended: after a loss of power nothing is missing, but of a copy that was taken
/// while a server ran the end may be. Throws as EmbeddedFolder does.
bool prepare_append_only(const EmbeddedFolder& folder);

}  // namespace foretime::jobs
