#include "cli/light_exit_code.h"

#include <filesystem>

#include "configs/load.h"
#include "coordinator/exit_code.h"
#include "data/error.h"
#include "tuner/model.h"

namespace foretime::cli {
namespace {

template <class... Errors>
bool is_one_of(const std::exception& error) {
  return (... || (dynamic_cast<const Errors*>(&error) != nullptr));
}

}  // namespace

int light_exit_code_of(const std::exception& error) {
  if (is_one_of<configs::SettingsError>(error)) return coordinator::kUsage;
  if (is_one_of<data::DataError, tuner::BundleError, tuner::FileError, tuner::WrongKind,
                std::filesystem::filesystem_error>(error))
    return coordinator::kData;
  return coordinator::kInternal;
}

}  // namespace foretime::cli
