/// Strides and footprints against enumeration: all iterations of the loops, and the set of what they touch.
#include "data/frontends/loops/access_pattern.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace foretime::data {
namespace {

/// The elements that loops first … end reach, the others being at 0.
std::set<int64_t> touched(const AffinePool& pool, const Affine& index, const std::vector<IndexLoop>& loops,
                          size_t first, size_t end) {
  std::set<int64_t> found;
  std::vector<int64_t> at(loops.size(), 0);
  const std::function<void(size_t)> run = [&](size_t loop) {
    if (loop == end) {
      found.insert(pool.evaluate(index, [&](int32_t variable) { return at[static_cast<size_t>(variable)]; }));
      return;
    }
    for (at[loop] = 0; at[loop] < loops[loop].extent; ++at[loop]) run(loop + 1);
    at[loop] = 0;
  };
  run(first);
  return found;
}

class Patterns : public ::testing::Test {
 protected:
  /// Loops named by their position, outermost first.
  Affine loop(size_t i) { return pool_.variable(static_cast<int32_t>(i), {0, loops_[i].extent - 1}); }
  void set_loops(const std::vector<int64_t>& extents) {
    loops_.clear();
    for (size_t i = 0; i < extents.size(); ++i) loops_.push_back({static_cast<int32_t>(i), extents[i]});
  }

  void expect_enumerated(const Affine& index) {
    const int64_t elements = int64_t{1} << 40;
    std::vector<LoopAccess> found;
    AccessPattern().append(pool_, index, loops_, elements, 4, found);
    ASSERT_EQ(found.size(), loops_.size());
    for (size_t i = 0; i < loops_.size(); ++i) {
      const auto alone = touched(pool_, index, loops_, i, i + 1);
      EXPECT_EQ(found[i].distinct, static_cast<double>(alone.size())) << "loop " << i;
      const auto value = [&](int64_t step) {
        return pool_.evaluate(index, [&](int32_t v) { return v == static_cast<int32_t>(i) ? step : 0; });
      };
      EXPECT_EQ(found[i].stride, value(1) - value(0)) << "loop " << i;
      EXPECT_EQ(found[i].footprint, static_cast<double>(touched(pool_, index, loops_, i, loops_.size()).size()))
          << "from loop " << i;
    }
  }

  AffinePool pool_;
  std::vector<IndexLoop> loops_;
};

TEST_F(Patterns, RowMajorArray) {
  set_loops({3, 4, 5});
  expect_enumerated(pool_.add(pool_.add(pool_.scale(loop(0), 20), pool_.scale(loop(1), 5)), loop(2)));
  expect_enumerated(pool_.add(pool_.scale(loop(2), 12), pool_.scale(loop(0), 4)));  // the second loop does not move
}

TEST_F(Patterns, SlidingWindows) {
  // Rows of 18: y and x of the output, then of the window.
  set_loops({4, 6, 3, 3});
  const auto row = pool_.add(loop(0), loop(2)), column = pool_.add(loop(1), loop(3));
  expect_enumerated(pool_.add(pool_.scale(row, 18), column));
  const auto strided = pool_.add(pool_.scale(loop(1), 2), loop(3));
  expect_enumerated(pool_.add(pool_.scale(pool_.add(pool_.scale(loop(0), 2), loop(2)), 18), strided));
}

TEST_F(Patterns, FusedLoopsAreTakenApart) {
  set_loops({24, 5});
  const auto outer = pool_.floor_divide(loop(0), 6);
  const auto inner = pool_.floor_modulo(loop(0), Affine::of(6));
  expect_enumerated(pool_.add(pool_.scale(outer, 100), pool_.add(pool_.scale(inner, 5), loop(1))));
  expect_enumerated(pool_.add(pool_.scale(inner, 5), loop(1)));  // 6 values, four times
  expect_enumerated(pool_.add(pool_.scale(outer, 5), loop(1)));  // 4 values, six times each
  const auto middle = pool_.floor_modulo(pool_.floor_divide(loop(0), 3), Affine::of(2));
  expect_enumerated(pool_.add(pool_.scale(middle, 7), pool_.scale(loop(1), 50)));
}

TEST_F(Patterns, RandomArrays) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    // A dense array of random dimensions, walked by loops that each dimension is split into, in random order.
    std::vector<int64_t> extents;
    std::vector<int64_t> strides;
    int64_t size = 1;
    for (int loop = 0; loop < 4; ++loop) {
      extents.push_back(static_cast<int64_t>(2 + random() % 4));
      strides.push_back(size);
      size *= extents.back();
    }
    std::vector<size_t> order = {0, 1, 2, 3};
    std::ranges::shuffle(order, random);
    std::vector<int64_t> shuffled;
    for (const size_t i : order) shuffled.push_back(extents[i]);
    set_loops(shuffled);
    Affine index = Affine::of(0);
    for (size_t i = 0; i < order.size(); ++i) {
      if (random() % 5 > 0) index = pool_.add(index, pool_.scale(loop(i), strides[order[i]]));
    }
    expect_enumerated(index);
    pool_.clear();
  }
}

TEST_F(Patterns, LinesAreNoMoreThanElements) {
  set_loops({8, 32});
  std::vector<LoopAccess> found;
  AccessPattern().append(pool_, pool_.add(pool_.scale(loop(0), 32), loop(1)), loops_, 256, 4, found);
  EXPECT_EQ(found[0].lines, 16.0);  // 1 KiB
  EXPECT_EQ(found[1].lines, 2.0);
  found.clear();
  AccessPattern().append(pool_, pool_.add(pool_.scale(loop(1), 64), loop(0)), loops_, 2048, 4, found);
  EXPECT_EQ(found[0].lines, 32.0);  // eight neighbours in each of 32 rows
  EXPECT_EQ(found[1].lines, 32.0);
}

TEST_F(Patterns, OtherIndicesAreSampled) {
  set_loops({1000});
  std::vector<LoopAccess> found;
  const auto clamped = pool_.minimum(loop(0), Affine::of(9));
  AccessPattern().append(pool_, clamped, loops_, 1 << 20, 4, found);
  EXPECT_EQ(found[0].stride, 1);
  EXPECT_GE(found[0].distinct, 2.0);
  EXPECT_LE(found[0].distinct, 1000.0);
}

}  // namespace
}  // namespace foretime::data
