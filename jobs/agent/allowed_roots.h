#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"

namespace foretime::jobs {

/// Folders of an agent that a job may name, already canonical.
struct AllowedRoots {
  std::vector<std::filesystem::path> data;  // read
  std::filesystem::path runs;               // written
  std::filesystem::path programs{};         // where programs of sweeps run; empty: they are refused
};

/// Why a root that is read cannot be used: it is not there, cannot be listed or is empty, as where its mount is
/// missing. `what` names it. Empty: it can.
std::string trouble_of_root(Files& files, const std::string& what, const std::filesystem::path& root);

/// The real path of `path` (relative ones start in `base`), every symbolic link and .. resolved as far as it exists.
/// Throws JobsError where that is not inside one of `roots`; `what` names the setting. Throws StorageError and
/// NodeError where this machine could not look at it, which is not the path's fault.
std::filesystem::path allowed_path(const std::string& what, const std::filesystem::path& path,
                                   const std::filesystem::path& base, const std::vector<std::filesystem::path>& roots);

/// A file pattern (* ? [ {) below one of `roots`: the part before the first special character is resolved, and the rest
/// must not hold a `..` component. Throws JobsError. What the pattern matches is checked once more where files are
/// opened (data.allowed_roots).
std::string allowed_pattern(const std::string& what, const std::string& pattern, const std::filesystem::path& base,
                            const std::vector<std::filesystem::path>& roots);

}  // namespace foretime::jobs
