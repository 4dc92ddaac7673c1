#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// Bundles that come with Foretime, and that people name without a path: NAME.foretime in a folder `pretrained`.
namespace foretime::inference {

struct PretrainedBundle {
  std::string name;
  std::filesystem::path file;
};

/// Where they are looked for: the folders of FORETIME_PRETRAINED, separated by colons, where it is set; else beside the
/// running program or library (its own folder's `pretrained`, as in Python's package), in share/foretime/pretrained of
/// the prefix that it is installed in, and in `pretrained` of the source tree that it was built in.
std::vector<std::filesystem::path> pretrained_folders();

/// All of them by name, ascending; of two with one name that of the first folder.
std::vector<PretrainedBundle> pretrained_bundles();

/// The file that people mean: `name` itself if something of that name exists, or if it has a slash or a point in it;
/// else that of the pretrained bundle. Throws FileError where there is none, which names those that there are.
std::filesystem::path bundle_file(const std::filesystem::path& name);

}  // namespace foretime::inference
