#pragma once

#include "configs/settings.h"
#include "data/dataset/group_files.h"

namespace foretime::sharding {

/// Refuses files outside of the folders of data.allowed_roots, for data::list_groups and for single files; empty where
/// the setting is. A file counts where it really lies: symbolic links and `..` are resolved, in the folders too, so
/// that neither a pattern nor a link leads out of them. Throws data::DataError naming file and folders, and for a
/// folder that does not exist.
data::FileCheck confinement(const configs::DataSettings& settings);

}  // namespace foretime::sharding
