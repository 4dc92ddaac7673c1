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

/// Returns why a root cannot be read: it does not exist, cannot be listed, or is empty, as if its mount were missing.
/// `what` names the root in the text. Returns an empty text if it can be read.
std::string trouble_of_root(Files& files, const std::string& what, const std::filesystem::path& root);

/// Returns the real path of `path` (relative paths start in `base`), with every symbolic link and .. resolved as far as
/// the path exists. Throws JobsError if it is not inside one of `roots`; `what` names the setting. Throws StorageError
/// or NodeError if this machine could not resolve the path.
std::filesystem::path allowed_path(const std::string& what, const std::filesystem::path& path,
                                   const std::filesystem::path& base, const std::vector<std::filesystem::path>& roots);

/// Returns a file pattern (* ? [ {) below one of `roots`: the part before the first special character is resolved, and
/// the rest must not contain a `..` component. Throws JobsError otherwise. Matched files are checked again when they
/// are opened (data.allowed_roots).
std::string allowed_pattern(const std::string& what, const std::string& pattern, const std::filesystem::path& base,
                            const std::vector<std::filesystem::path>& roots);

}  // namespace foretime::jobs
