#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Shell patterns over the file system: `*` and `?` within one name, `**` as a whole name for folders at any depth,
/// `{a,b}` for alternatives, which may nest. A name that starts with a dot is matched only by a pattern that does.
namespace foretime {

/// "{x,y}/*.npz" becomes "x/*.npz" and "y/*.npz". Throws DataError for a brace without its partner and for more than
/// `limit` results.
std::vector<std::string> expand_braces(const std::string& pattern, size_t limit = SIZE_MAX);

/// Whether `name` fits a pattern of `*` and `?`.
bool matches(std::string_view pattern, std::string_view name);
/// Whether `name` fits any of several patterns, which may have braces.
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

/// The paths that exist and fit, in the order of their names; relative patterns start at `root`. Throws DataError where
/// a folder cannot be read.
std::vector<std::filesystem::path> glob(const std::string& pattern, const std::filesystem::path& root);
/// The same, but a path that exists is taken as it stands, even if it has braces or stars in it.
std::vector<std::filesystem::path> paths_named(const std::string& name, const std::filesystem::path& root);

}  // namespace foretime
