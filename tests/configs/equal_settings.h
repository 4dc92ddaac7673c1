#pragma once

#include <gtest/gtest.h>

#include "configs/field_list.h"

namespace foretime::configs {

/// Field by field, bit by bit for numbers, without the printer that the tests are about.
inline void expect_equal(Settings left, Settings right) {
  const FieldList a = list_fields(left);
  const FieldList b = list_fields(right);
  ASSERT_EQ(a.fields.size(), b.fields.size());
  for (size_t i = 0; i < a.fields.size(); ++i) {
    std::visit(
        [&](auto* value) {
          const auto& other = *std::get<decltype(value)>(b.fields[i].value);
          EXPECT_EQ(*value, other) << a.fields[i].key;
        },
        a.fields[i].value);
  }
}

}  // namespace foretime::configs
