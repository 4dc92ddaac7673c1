#pragma once

#include <stdexcept>

namespace foretime::data {

/// Input that is missing, damaged or not what its format promises. The message reads
/// `file: member or field: what was found, expected what`.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace foretime::data
