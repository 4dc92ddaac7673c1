#pragma once

#include <string>

namespace foretime::cli {

/// Of a bundle that -o names. Throws configs::SettingsError where a file is there that is no bundle, with
/// the reason; StorageError where the storage failed.
void expect_bundle_or_nothing(const std::string& output);

}  // namespace foretime::cli
