#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Shell patterns over the file system: `*` and `?` within one name, `**` as a whole name for folders at any depth
/// (not through links), `{a,b}` for alternatives, which may nest.
namespace foretime {

/// Returns the patterns without braces that a pattern means: "x/*.npz" and "y/*.npz" for "{x,y}/*.npz". Throws
/// DataError for a brace without its counterpart and for more than `limit` results.
std::vector<std::string> expand_braces(const std::string& pattern, size_t limit = SIZE_MAX);

/// Returns whether the whole of `name` matches a pattern of `*` (any characters, also slashes) and `?` (one character).
/// All other characters mean themselves, also braces and brackets.
bool matches(std::string_view pattern, std::string_view name);
/// Returns whether `name` matches any of several patterns, which may have braces. Throws the errors of expand_braces.
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

/// Returns the existing paths that match a pattern, sorted; empty if none matches. Relative patterns start at `root`. A
/// name that starts with a dot matches only a pattern that does. Throws DataError for a folder that cannot be listed
/// and for wrong braces, and StorageError if the storage fails.
std::vector<std::filesystem::path> glob(const std::string& pattern, const std::filesystem::path& root);
/// Returns only `root`/`name` if that exists, even with braces or stars in it, else glob(name, root). Throws as glob.
std::vector<std::filesystem::path> paths_named(const std::string& name, const std::filesystem::path& root);

}  // namespace foretime
