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

/// Returns the folders of pretrained bundles: the paths in FORETIME_PRETRAINED, separated by colons, existing or not.
/// If that is unset or empty, those that exist of `pretrained` next to the running program or library (as in Python's
/// package), share/foretime/pretrained of an installation prefix above, and `pretrained` of the source tree above.
std::vector<std::filesystem::path> pretrained_folders();

/// Returns all pretrained bundles, sorted by name. If two folders have the same name, the first folder wins.
std::vector<PretrainedBundle> pretrained_bundles();

/// Returns the file of a bundle: `name` unchanged if it is empty, contains a slash or a point, or exists; else the file
/// of the pretrained bundle `name`. Throws FileError, with the nearest or all known names, if there is no such bundle.
std::filesystem::path bundle_file(const std::filesystem::path& name);

}  // namespace foretime::inference
