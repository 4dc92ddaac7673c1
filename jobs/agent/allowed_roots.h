#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"

namespace foretime::jobs {

/// Holds the canonical folders of an agent that jobs may use.
struct AllowedRoots {
  std::vector<std::filesystem::path> data;  // read by jobs
  std::filesystem::path runs;               // written by jobs
  std::filesystem::path programs{};         // programs of sweeps; empty: such jobs are refused
};

/// Returns why a root cannot be used: it does not exist, cannot be listed, or is empty, as if its mount were missing.
/// `what` names the root in the text. Returns "" if the root can be used.
std::string trouble_of_root(Files& files, const std::string& what, const std::filesystem::path& root);

/// Returns the real path of `path` (relative paths start in `base`): every symbolic link and .. is resolved as far as
/// the path exists. Throws JobsError, which names the setting `what`, if `path` is malformed or the real path is not
/// inside one of `roots`, and StorageError or NodeError if this machine cannot resolve the path.
std::filesystem::path allowed_path(const std::string& what, const std::filesystem::path& path,
                                   const std::filesystem::path& base, const std::vector<std::filesystem::path>& roots);

/// Returns a file pattern (* ? [ {) whose folders before the first special character are resolved by allowed_path(),
/// and throws as that. Throws JobsError if the rest has a `..` component or a backslash. Matched files are checked
/// again when they are opened (data.allowed_roots).
std::string allowed_pattern(const std::string& what, const std::string& pattern, const std::filesystem::path& base,
                            const std::vector<std::filesystem::path>& roots);

}  // namespace foretime::jobs
