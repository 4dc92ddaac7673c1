#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inference/selection/choose.h"

namespace foretime::inference::testing {
namespace {

using ::testing::ElementsAre;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

Matrix matrix_of(const Rows& rows) {
  Matrix matrix{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.front().size()), {}};
  for (const auto& row : rows) {
    for (const double value : row) matrix.values.push_back(static_cast<float>(value));
  }
  return matrix;
}

/// Some clusters of different sizes and widths; float32 numbers.
Rows clusters(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Rows centres, all;
  for (int k = 0; k < 5; ++k) {
    Row& centre = centres.emplace_back();
    for (int64_t c = 0; c < columns; ++c) centre.push_back(static_cast<double>(4.0F * normal(random)));
  }
  for (int64_t r = 0; r < rows; ++r) {
    const size_t k = std::min<size_t>(4, random() % 12);
    Row& row = all.emplace_back();
    for (const double value : centres[k])
      row.push_back(static_cast<double>(static_cast<float>(value) + static_cast<float>(k + 1) * 0.3F * normal(random)));
  }
  return all;
}

double slow_distance(const Row& a, const Row& b) {
  double sum = 0.0;
  for (size_t c = 0; c < a.size(); ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

Row slow_mean(const Rows& rows, const std::vector<int64_t>& of) {
  Row mean(rows.front().size(), 0.0);
  for (const int64_t r : of) {
    for (size_t c = 0; c < mean.size(); ++c)
      mean[c] += rows[static_cast<size_t>(r)][c] / static_cast<double>(of.size());
  }
  return mean;
}

std::vector<int64_t> numbers(int64_t first, int64_t end) {
  std::vector<int64_t> all(static_cast<size_t>(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// By its definition: each time the distances of all candidates to all that is there.
std::vector<int64_t> slow_diverse(const Rows& rows, int64_t candidates, int64_t count) {
  std::vector<int64_t> chosen, there = numbers(candidates, static_cast<int64_t>(rows.size()));
  while (static_cast<int64_t>(chosen.size()) < count) {
    const Row mean = slow_mean(rows, numbers(0, candidates));
    int64_t best = -1;
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < candidates; ++i) {
      if (std::ranges::count(chosen, i) > 0) continue;
      const Row& row = rows[static_cast<size_t>(i)];
      double far = there.empty() ? -slow_distance(row, mean) : std::numeric_limits<double>::infinity();
      for (const int64_t other : there) far = std::min(far, slow_distance(row, rows[static_cast<size_t>(other)]));
      if (far > most) best = i;
      most = std::max(most, far);
    }
    chosen.push_back(best);
    there.push_back(best);
  }
  return chosen;
}

Row times(const Rows& matrix, const Row& vector) {
  Row product;
  for (const auto& row : matrix) product.push_back(std::inner_product(row.begin(), row.end(), vector.begin(), 0.0));
  return product;
}

double dot(const Row& a, const Row& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

double squares_around_mean(const Rows& rows, const std::vector<int64_t>& of) {
  const Row mean = slow_mean(rows, of);
  double sum = 0.0;
  for (const int64_t r : of) sum += slow_distance(rows[static_cast<size_t>(r)], mean);
  return sum;
}

/// By the covariance matrix, and with the sums of squares of every cut.
void slow_representative(const Rows& rows, const std::vector<int64_t>& candidates, const std::vector<int64_t>& measured,
                         int64_t count, std::vector<int64_t>& chosen) {
  const auto size = static_cast<int64_t>(candidates.size());
  const Row mean = slow_mean(rows, candidates);
  const auto apart = [&](int64_t r) { return slow_distance(rows[static_cast<size_t>(r)], mean); };
  if (count == 0) return;
  if (count == size) return static_cast<void>(chosen.insert(chosen.end(), candidates.begin(), candidates.end()));
  if (count == 1) return chosen.push_back(*std::ranges::min_element(candidates, {}, apart));
  const auto centred = [&](int64_t r) {
    Row row = rows[static_cast<size_t>(r)];
    for (size_t c = 0; c < row.size(); ++c) row[c] -= mean[c];
    return row;
  };
  Rows covariance(mean.size(), Row(mean.size(), 0.0));
  for (const int64_t r : candidates) {
    const Row row = centred(r);
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = 0; b < row.size(); ++b) covariance[a][b] += row[a] * row[b];
    }
  }
  Row direction = centred(*std::ranges::max_element(candidates, {}, apart));
  for (int turn = 0; turn < 8; ++turn) {
    direction = times(covariance, direction);
    const double length = std::sqrt(dot(direction, direction));
    for (double& value : direction) value /= length;
  }
  auto order = candidates;
  std::ranges::stable_sort(order, {}, [&](int64_t r) { return dot(centred(r), direction); });
  const int64_t least = std::max<int64_t>(1, size / 8);
  int64_t cut = -1;
  double fewest = std::numeric_limits<double>::infinity();
  for (int64_t at = least; at <= size - least; ++at) {
    const std::vector<int64_t> left(order.begin(), order.begin() + at), right(order.begin() + at, order.end());
    const double squares = squares_around_mean(rows, left) + squares_around_mean(rows, right);
    if (squares < fewest) cut = at;
    fewest = std::min(fewest, squares);
  }
  std::vector<int64_t> left(order.begin(), order.begin() + cut), right(order.begin() + cut, order.end()), known[2];
  const double border = (dot(centred(left.back()), direction) + dot(centred(right.front()), direction)) / 2.0;
  for (const int64_t r : measured) known[dot(centred(r), direction) < border ? 0 : 1].push_back(r);
  const auto all = static_cast<double>(count + static_cast<int64_t>(measured.size()));
  int64_t of_left =
      std::llround(all * static_cast<double>(cut) / static_cast<double>(size)) - static_cast<int64_t>(known[0].size());
  of_left = std::min({std::max({of_left, int64_t{0}, count - (size - cut)}), count, cut});
  std::ranges::sort(left);
  std::ranges::sort(right);
  slow_representative(rows, left, known[0], of_left, chosen);
  slow_representative(rows, right, known[1], count - of_left, chosen);
}

TEST(Selection, DiverseIsTheSlowFarthestFirst) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto rows = clusters(150, 3 + seed % 9, seed);
    const auto points = matrix_of(rows);
    for (const int64_t candidates : {150, 130}) {
      for (const int64_t count : {0, 1, 2, 40, 130})
        EXPECT_EQ(choose_diverse(points, candidates, count), slow_diverse(rows, candidates, count)) << seed;
    }
  }
}

TEST(Selection, RepresentativeIsTheSlowDivision) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto rows = clusters(120, 3 + seed % 9, seed);
    const auto points = matrix_of(rows);
    for (const int64_t candidates : {120, 100}) {
      for (const int64_t count : {0, 1, 2, 17, 60, 100}) {
        std::vector<int64_t> slow;
        slow_representative(rows, numbers(0, candidates), numbers(candidates, 120), count, slow);
        const auto fast = choose_representative(points, candidates, numbers(0, candidates), count);
        EXPECT_EQ(fast, slow) << seed;
        EXPECT_EQ(std::set<int64_t>(fast.begin(), fast.end()).size(), static_cast<size_t>(count));
      }
    }
  }
}

TEST(Selection, CrowdedPlacesAreRepresentedMore) {
  Rows rows;
  for (int i = 0; i < 80; ++i) rows.push_back({0.001 * i, 0.0});
  for (int i = 0; i < 20; ++i) rows.push_back({100.0 + 0.001 * i, 0.0});
  const auto far = [](const std::vector<int64_t>& chosen) {
    return std::ranges::count_if(chosen, [](int64_t i) { return i >= 80; });
  };
  EXPECT_EQ(far(choose_representative(matrix_of(rows), 100, numbers(0, 100), 10)), 2);
  // Measured ones of the crowded place count: 5 and 10 of 15 are to be 12 and 3.
  for (int i = 0; i < 5; ++i) rows.push_back({0.01 * i, 0.0});
  EXPECT_EQ(far(choose_representative(matrix_of(rows), 100, numbers(0, 100), 10)), 3);
  EXPECT_EQ(far(choose_diverse(matrix_of(rows), 100, 1)), 1);
}

TEST(Selection, EqualPointsAreChosenAsOftenAsAskedFor) {
  const auto points = matrix_of(Rows(10, Row{1.0, 2.0, 3.0}));
  for (const int64_t count : {1, 3, 10}) {
    for (auto chosen : {choose_diverse(points, 10, count), choose_representative(points, 10, numbers(0, 10), count)}) {
      EXPECT_EQ(std::set<int64_t>(chosen.begin(), chosen.end()).size(), static_cast<size_t>(count));
    }
  }
}

TEST(Selection, UncertainOnesAreTheFirstOfTheSortedList) {
  std::mt19937 random(3);
  std::vector<double> uncertainty;
  for (int i = 0; i < 200; ++i) uncertainty.push_back(static_cast<double>(random() % 40));
  for (const int64_t count : {0, 1, 50, 200}) {
    std::vector<int64_t> slow;
    auto left = uncertainty;
    for (int64_t i = 0; i < count; ++i) {
      slow.push_back(std::ranges::max_element(left) - left.begin());
      left[static_cast<size_t>(slow.back())] = -1.0;
    }
    EXPECT_EQ(choose_uncertain(uncertainty, count), slow);
  }
}

TEST(Selection, MixedTakesRepresentativesOfTheUncertainHalf) {
  const auto rows = clusters(61, 4, 5);
  SelectionPool pool{.points = matrix_of(rows), .candidates = 61};
  for (int i = 0; i < 61; ++i) pool.uncertainty.push_back(static_cast<double>(i * 7 % 61));
  auto half = choose_uncertain(pool.uncertainty, 31);
  std::ranges::sort(half);
  EXPECT_EQ(choose(SelectionMethod::mixed, pool, 9), choose_representative(pool.points, 61, half, 9));
  auto many = choose(SelectionMethod::mixed, pool, 40);
  auto expected = choose_uncertain(pool.uncertainty, 40);
  std::ranges::sort(many);
  std::ranges::sort(expected);
  EXPECT_EQ(many, expected);
}

TEST(Selection, RandomDependsOnItsKeyAlone) {
  const SelectionPool one{.candidates = 50, .key = 1}, other{.candidates = 50, .key = 2};
  const auto chosen = choose(SelectionMethod::random, one, 20);
  EXPECT_EQ(chosen, choose(SelectionMethod::random, one, 20));
  EXPECT_NE(chosen, choose(SelectionMethod::random, other, 20));
  EXPECT_EQ(std::set<int64_t>(chosen.begin(), chosen.end()).size(), 20U);
  EXPECT_TRUE(std::ranges::all_of(chosen, [](int64_t i) { return i >= 0 && i < 50; }));
}

TEST(Selection, SharesAreDealtInTurn) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> sizes;
    for (int t = 0; t < 1 + trial % 7; ++t) sizes.push_back(static_cast<int64_t>(random() % 30));
    const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const int64_t number = all == 0 ? 0 : static_cast<int64_t>(random() % static_cast<uint32_t>(all + 1));
    std::vector<int64_t> slow(sizes.size(), 0);
    for (int64_t dealt = 0; dealt < number;) {
      for (size_t t = 0; t < sizes.size() && dealt < number; ++t) {
        if (slow[t] == sizes[t]) continue;
        ++slow[t];
        ++dealt;
      }
    }
    EXPECT_EQ(equal_shares(sizes, number), slow);
  }
}

TEST(Selection, DisagreementIsAboutOrder) {
  // The second member says the same in other units, the third has two candidates exchanged.
  const std::vector<float> a = {1, 2, 3, 4}, b = {10, 20, 30, 40}, c = {1, 3, 2, 4}, flat = {5, 5, 5, 5};
  for (const double value : disagreement({a, b})) EXPECT_NEAR(value, 0.0, 1e-7);
  const auto of_c = disagreement({a, c});
  const double step = 1.0 / std::sqrt(1.25);  // standardised
  EXPECT_NEAR(of_c[0], 0.0, 1e-7);
  EXPECT_NEAR(of_c[1], step / 2.0, 1e-6);
  EXPECT_NEAR(of_c[2], step / 2.0, 1e-6);
  EXPECT_NEAR(disagreement({a, flat})[0], 1.5 * step / 2.0, 1e-6);
}

TEST(Selection, PointsAreScaledAndProjected) {
  const auto few = clusters(50, 6, 8), many = clusters(50, 300, 9);
  const auto spread = [](const Matrix& points) {
    Rows rows;
    for (int64_t r = 0; r < points.rows; ++r) rows.emplace_back(points.row(r), points.row(r) + points.columns);
    return squares_around_mean(rows, numbers(0, points.rows)) / static_cast<double>(points.rows);
  };
  const auto joined = points_of({matrix_of(few), matrix_of(Rows(50, Row{7.0}))});  // a block that says nothing
  EXPECT_EQ(joined.columns, 7);
  EXPECT_NEAR(spread(joined), 1.0, 1e-4);
  const auto projected = points_of({matrix_of(many)});
  EXPECT_EQ(projected.columns, kPointColumns);
  const double whole = squares_around_mean(many, numbers(0, 50)) / 50.0;
  double worst = 0.0;
  for (size_t i = 1; i < many.size(); ++i) {
    const Row a(projected.row(0), projected.row(0) + kPointColumns);
    const auto at = static_cast<int64_t>(i);
    const Row b(projected.row(at), projected.row(at) + kPointColumns);
    worst = std::max(worst, std::abs(slow_distance(a, b) / (slow_distance(many[0], many[i]) / whole) - 1.0));
  }
  EXPECT_LT(worst, 0.7);
  EXPECT_EQ(points_of({matrix_of(many)}).values, projected.values);
}

}  // namespace
}  // namespace foretime::inference::testing
