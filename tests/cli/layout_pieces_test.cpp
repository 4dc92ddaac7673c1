#include "cli/layout_pieces.h"

#include <gtest/gtest.h>

namespace foretime::cli {
namespace {

/// One node, whose candidate i has layout numbers[i].
std::vector<int64_t> pieces(const std::vector<int>& numbers, int64_t configurable = 1) {
  std::vector<int8_t> layouts(numbers.size() * static_cast<size_t>(configurable * data::kLayoutFeatures), -1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto* row = layouts.data() + i * static_cast<size_t>(configurable * data::kLayoutFeatures);
    row[0] = static_cast<int8_t>(numbers[i] % 100);
    row[17] = static_cast<int8_t>(numbers[i] / 100);
  }
  return layout_pieces(layouts, configurable, static_cast<int64_t>(numbers.size()));
}

std::vector<int> counting(int from, int to) {
  std::vector<int> numbers;
  for (int i = from; i < to; ++i) numbers.push_back(i);
  return numbers;
}

TEST(LayoutPieces, EndBeforeTheLayoutThatIsTooMuch) {
  EXPECT_EQ(pieces(counting(0, 256)), (std::vector<int64_t>{256}));
  EXPECT_EQ(pieces(counting(0, 257)), (std::vector<int64_t>{256, 257}));
  EXPECT_EQ(pieces(counting(0, 600), 3), (std::vector<int64_t>{256, 512, 600}));
}

TEST(LayoutPieces, LayoutsThatComeAgainCountOnce) {
  auto numbers = counting(0, 256);
  for (int i = 0; i < 1000; ++i) numbers.push_back(i % 256);
  EXPECT_EQ(pieces(numbers), (std::vector<int64_t>{1256}));
  numbers.push_back(256);
  numbers.push_back(0);
  EXPECT_EQ(pieces(numbers), (std::vector<int64_t>{1256, 1258}));
  EXPECT_EQ(pieces(std::vector<int>(1000, 7), 2), (std::vector<int64_t>{1000}));
}

TEST(LayoutPieces, OfNothing) {
  EXPECT_EQ(layout_pieces({}, 0, 1000), (std::vector<int64_t>{1000}));
  EXPECT_EQ(layout_pieces({}, 3, 0), (std::vector<int64_t>{0}));
}

}  // namespace
}  // namespace foretime::cli
