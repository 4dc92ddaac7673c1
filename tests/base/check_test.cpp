#include "base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretime {
namespace {

TEST(Checks, NameTheirPlaceAndCondition) {
  const int found = 3, expected = 4;
  try {
    FORETIME_CHECK(found == expected, "{} for {}", found, expected);
    FAIL();
  } catch (const BrokenInvariant& error) {
    EXPECT_THAT(error.what(), ::testing::MatchesRegex("this is a fault of Foretime, please report it: "
                                                      "tests/base/check_test.cpp:[0-9]+: found == expected: 3 for 4"));
    EXPECT_EQ(exit_code_of(error), kFault);
  }
}

TEST(Checks, DoNotEvaluateTheirMessageWhenTheyHold) {
  int evaluated = 0;
  FORETIME_CHECK(evaluated == 0, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  EXPECT_THROW(FORETIME_CHECK(evaluated > 0), BrokenInvariant);
}

}  // namespace
}  // namespace foretime
