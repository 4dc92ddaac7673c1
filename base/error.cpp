#include "base/error.h"

#include <filesystem>

namespace foretime {

int exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->exit_code();
  return dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr ? kData : kInternal;
}

}  // namespace foretime
