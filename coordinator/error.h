#pragma once

#include <stdexcept>

namespace foretime::coordinator {

/// A run directory or a checkpoint that cannot be used: damaged, of another model, of another configuration.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace foretime::coordinator
