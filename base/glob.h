#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Shell patterns over the file system: `*` and `?` within one name, `**` as a whole name for folders at any depth,
/// `{a,b}` for alternatives, which may nest. A name that starts with a dot is matched only by a pattern that does.
namespace foretime {

/// Returns "x/*.npz" and "y/*.npz" for "{x,y}/*.npz". Throws DataError for an unclosed brace and for more than `limit`
/// results.
std::vector<std::string> expand_braces(const std::string& pattern, size_t limit = SIZE_MAX);

/// Returns whether `name` matches a pattern of `*` and `?`.
bool matches(std::string_view pattern, std::string_view name);
/// Returns whether `name` matches any of several patterns, which may have braces.
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

/// Returns the existing paths that match a pattern, ordered by name; relative patterns start at `root`. Throws
/// DataError if a folder cannot be read.
std::vector<std::filesystem::path> glob(const std::string& pattern, const std::filesystem::path& root);
/// Returns the path `name` if it exists, even if it has braces or stars in it, else the result of glob.
std::vector<std::filesystem::path> paths_named(const std::string& name, const std::filesystem::path& root);

}  // namespace foretime
