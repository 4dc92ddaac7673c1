#pragma once

#include <stdexcept>

namespace foretime::models {

/// Settings, plans or files that do not fit a model. The message names what was found and what was expected.
class ModelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace foretime::models
