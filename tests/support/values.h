#pragma once

#include <vector>

#include "base/array.h"

namespace foretime::testing {

/// An array's elements, which GoogleTest compares and prints.
template <class T>
std::vector<T> values(const Array<T>& array) {
  return {array.begin(), array.end()};
}

}  // namespace foretime::testing
