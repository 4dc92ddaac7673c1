#include "base/error.h"

#include <filesystem>

#include "base/files.h"

namespace foretime {

int exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->exit_code();
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return is_storage_failure(file->code().value()) ? kStorage : kData;
  return kInternal;
}

}  // namespace foretime
