#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// Bundles that come with Foretime and are named without a path: NAME.foretime in a folder `pretrained`.
namespace foretime::inference {

struct PretrainedBundle {
  std::string name;
  std::filesystem::path file;
};

/// Returns the folders of pretrained bundles: those of FORETIME_PRETRAINED, separated by colons, if it is set.
/// Otherwise `pretrained` next to the running program or library (as in Python's package), share/foretime/pretrained of
/// its installation prefix, and `pretrained` of the source tree that it was built in.
std::vector<std::filesystem::path> pretrained_folders();

/// Returns all pretrained bundles by name, ascending. If two folders have the same name, the first folder wins.
std::vector<PretrainedBundle> pretrained_bundles();

/// Returns the file of a bundle: `name` if it exists, or if it contains a slash or a point; else the file of the
/// pretrained bundle. Throws FileError, which lists the known names, if there is none.
std::filesystem::path bundle_file(const std::filesystem::path& name);

}  // namespace foretime::inference
