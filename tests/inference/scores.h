#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "inference/scoring/model.h"

/// What tests of all kinds of models ask of their scores.
namespace foretime::inference::testing {

inline std::shared_ptr<const Model> model_of(Bundle bundle, const Options& options = {}) {
  return std::make_shared<const Model>(std::move(bundle), options);
}

/// To rounding of the largest score.
inline void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  float largest = 1.0F;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5F * largest) << i;
}

}  // namespace foretime::inference::testing
