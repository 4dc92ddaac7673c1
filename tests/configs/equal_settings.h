#pragma once

#include <gtest/gtest.h>

#include "configs/fields.h"
#include "configs/settings.h"

namespace foretime::configs {

/// Field by field; numbers are written in full (WriteValue.DoublesAreShortestAndExact).
inline void expect_equal(Settings left, Settings right) {
  const FieldList a = list_fields(left);
  const FieldList b = list_fields(right);
  ASSERT_EQ(a.fields.size(), b.fields.size());
  for (size_t i = 0; i < a.fields.size(); ++i) {
    EXPECT_EQ(write_value(a.fields[i].value), write_value(b.fields[i].value)) << a.fields[i].key;
  }
}

}  // namespace foretime::configs
