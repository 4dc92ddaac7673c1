#include "cli/output_bundle.h"

#include <filesystem>
#include <stdexcept>

#include "base/files.h"
#include "configs/settings_error.h"
#include "inference/bundle/bundle.h"

namespace foretime::cli {

void expect_bundle_or_nothing(const std::string& output) {
  if (!std::filesystem::exists(output)) return;
  try {
    inference::read_bundle(output);
  } catch (const StorageError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw configs::SettingsError("-o {}: exists and is no bundle ({}); name another file", output, error.what());
  }
}

}  // namespace foretime::cli
