#pragma once

#include <vector>

#include "data/array.h"

namespace foretime::testing {

/// An array's elements, which GoogleTest compares and prints.
template <class T>
std::vector<T> values(const data::Array<T>& array) {
  return {array.begin(), array.end()};
}

}  // namespace foretime::testing
