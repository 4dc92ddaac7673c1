/// The pool's arithmetic against the same arithmetic on plain numbers.
#include "data/frontends/ansor/replay/affine.h"

#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/expression.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::data {
namespace {

constexpr int kVariables = 5;
constexpr int64_t kExtents[kVariables] = {2, 3, 7, 16, 60};

/// An expression in the pool, and what it is at some places.
struct Reference {
  Affine affine;
  std::vector<int64_t> values;
};

class AffineArithmetic : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr size_t kPlaces = 60;

  void SetUp() override {
    random_.seed(GetParam());
    places_.resize(kPlaces);
    for (auto& place : places_) {
      for (const int64_t extent : kExtents) place.push_back(draw(0, extent - 1));
    }
    for (auto& value : places_.front()) value = 0;
    for (int v = 0; v < kVariables; ++v) places_.back()[static_cast<size_t>(v)] = kExtents[v] - 1;
  }

  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Reference constant(int64_t value) { return {Affine::of(value), std::vector<int64_t>(kPlaces, value)}; }

  Reference variable(int number) {
    Reference made{pool_.variable(number, {0, kExtents[number] - 1}), {}};
    for (const auto& place : places_) made.values.push_back(place[static_cast<size_t>(number)]);
    return made;
  }

  template <class Plain>
  Reference combine(const Affine& affine, const Reference& a, const Reference& b, Plain plain) {
    Reference made{affine, {}};
    for (size_t i = 0; i < kPlaces; ++i) made.values.push_back(plain(a.values[i], b.values[i]));
    return made;
  }

  Reference random_reference(int depth) {
    if (depth == 0)
      return draw(0, 3) == 0 ? constant(draw(-5, 20)) : variable(static_cast<int>(draw(0, kVariables - 1)));
    const Reference a = random_reference(depth - 1), b = random_reference(depth - 1);
    const Reference factor = constant(draw(1, 12));
    switch (draw(0, 18)) {
      case 10: return combine(pool_.less(a.affine, b.affine), a, b, std::less<int64_t>());
      case 11: return combine(pool_.equal(a.affine, b.affine), a, b, std::equal_to<int64_t>());
      case 12: return combine(pool_.negate(pool_.less(a.affine, b.affine)), a, b, std::greater_equal<int64_t>());
      case 13:
        return combine(
            pool_.logical(AtomKind::logical_and, pool_.less(a.affine, b.affine), pool_.equal(a.affine, a.affine)), a, b,
            std::less<int64_t>());
      case 14: {
        const Affine below = pool_.less(a.affine, b.affine), same = pool_.equal(a.affine, b.affine);
        return combine(pool_.logical(AtomKind::logical_or, below, same), a, b, std::less_equal<int64_t>());
      }
      case 15: {
        const Affine below = pool_.less(a.affine, b.affine),
                     even = pool_.equal(pool_.floor_modulo(b.affine, Affine::of(2)), {});
        return combine(pool_.logical(AtomKind::logical_and, below, even), a, b,
                       [](int64_t x, int64_t y) { return int64_t{x < y && y % 2 == 0}; });
      }
      case 16:
        return combine(pool_.select(pool_.less(a.affine, b.affine), pool_.scale(a.affine, 3), pool_.add(b.affine, 1)),
                       a, b, [](int64_t x, int64_t y) { return x < y ? 3 * x : y + 1; });
      case 17: {
        const Reference by = draw(0, 1) == 0 ? factor : constant(-draw(1, 12));
        return combine(pool_.divide(a.affine, by.affine), a, by, std::divides<int64_t>());
      }
      case 18: {
        const Reference by = draw(0, 1) == 0 ? factor : constant(-draw(1, 12));
        return combine(pool_.modulo(a.affine, by.affine), a, by, std::modulus<int64_t>());
      }
      case 0:
      case 1:
      case 2: return combine(pool_.add(a.affine, b.affine), a, b, std::plus<>());
      case 3: return combine(pool_.subtract(a.affine, b.affine), a, b, std::minus<>());
      case 4: return combine(pool_.scale(a.affine, factor.affine.base), a, factor, std::multiplies<>());
      case 5:
      case 6: return combine(pool_.floor_divide(a.affine, factor.affine), a, factor, floor_quotient);
      case 7: return combine(pool_.floor_modulo(a.affine, factor.affine), a, factor, floor_remainder);
      case 8:
        return combine(pool_.minimum(a.affine, b.affine), a, b, [](int64_t x, int64_t y) { return std::min(x, y); });
      default:
        return combine(pool_.maximum(a.affine, b.affine), a, b, [](int64_t x, int64_t y) { return std::max(x, y); });
    }
  }

  int64_t at(const Affine& affine, size_t place) const {
    return pool_.evaluate(affine, [&](int32_t v) { return places_[place][static_cast<size_t>(v)]; });
  }

  AffinePool pool_;
  std::mt19937 random_;
  std::vector<std::vector<int64_t>> places_;
};

TEST_P(AffineArithmetic, EqualsPlainNumbersAndStaysInBounds) {
  for (int trial = 0; trial < 40; ++trial) {
    const Reference reference = random_reference(static_cast<int>(draw(1, 5)));
    const AffineBounds bounds = pool_.bounds(reference.affine);
    for (size_t i = 0; i < kPlaces; ++i) {
      ASSERT_EQ(at(reference.affine, i), reference.values[i])
          << pool_.to_text(reference.affine, [](int32_t v) { return std::string(1, static_cast<char>('a' + v)); });
      ASSERT_LE(bounds.low, reference.values[i]);
      ASSERT_GE(bounds.high, reference.values[i]);
    }
  }
}

TEST_P(AffineArithmetic, RelaxedVariablesStayInside) {
  const AffineInterval whole{Affine::of(0), Affine::of(kExtents[4] - 1)};
  const AffineInterval shifted{pool_.variable(0, {0, kExtents[0] - 1}),
                               pool_.add(pool_.variable(0, {0, kExtents[0] - 1}), 5)};
  for (int trial = 0; trial < 40; ++trial) {
    const Reference reference = random_reference(static_cast<int>(draw(1, 4)));
    const AffineInterval interval = pool_.relax(reference.affine, [&](int32_t v) -> const AffineInterval* {
      return v == 4 ? &whole : v == 3 ? &shifted : nullptr;
    });
    for (size_t i = 0; i < kPlaces; ++i) {
      const auto& place = places_[i];
      // The interval depends on what is not relaxed only; the value on all.
      const int64_t inside = place[0] + draw(0, 5);
      const int64_t value =
          pool_.evaluate(reference.affine, [&](int32_t v) { return v == 3 ? inside : place[static_cast<size_t>(v)]; });
      const auto unrelaxed = [&](int32_t v) {
        EXPECT_TRUE(v < 3) << "relaxed variables must be gone";
        return place[static_cast<size_t>(v)];
      };
      ASSERT_LE(pool_.evaluate(interval.low, unrelaxed), value);
      ASSERT_GE(pool_.evaluate(interval.high, unrelaxed), value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AffineArithmetic, ::testing::Range(0u, 60u));

class AffineForms : public ::testing::Test {
 protected:
  std::string text(const Affine& affine) {
    return pool_.to_text(affine, [](int32_t v) { return std::string(1, static_cast<char>('a' + v)); });
  }
  AffinePool pool_;
  Affine a_ = pool_.variable(0, {0, 1055}), b_ = pool_.variable(1, {0, 3});
};

TEST_F(AffineForms, EqualExpressionsBecomeEqual) {
  // ((a mod 96) / 48) · 8 counts the same as two divisions of a.
  const Affine digits = pool_.scale(pool_.floor_divide(pool_.floor_modulo(a_, Affine::of(96)), 48), 8);
  EXPECT_EQ(text(digits), "((floordiv(a, 96)*-16) + (floordiv(a, 48)*8))");
  const AffineBounds bounds = pool_.bounds(digits);
  EXPECT_EQ(bounds.low, 0);
  EXPECT_EQ(bounds.high, 8);
  // A tile is whole again after it was divided.
  EXPECT_EQ(text(pool_.floor_divide(pool_.add(pool_.scale(a_, 4), b_), 4)), "a");
  EXPECT_EQ(text(pool_.floor_divide(pool_.add(pool_.scale(a_, 4), b_), 8)), "floordiv(a, 2)");
  EXPECT_EQ(text(pool_.floor_modulo(pool_.add(pool_.scale(a_, 4), b_), Affine::of(4))), "b");
  EXPECT_EQ(text(pool_.floor_divide(pool_.floor_divide(a_, 3), 5)), "floordiv(a, 15)");
  EXPECT_EQ(text(pool_.floor_divide(a_, 1056)), "0");
  const Affine sum = pool_.add(pool_.scale(a_, 3), b_);
  const Affine rest = pool_.floor_modulo(sum, Affine::of(7));
  EXPECT_EQ(pool_.bounds(rest).low, 0);
  EXPECT_EQ(pool_.bounds(rest).high, 6);
}

TEST_F(AffineForms, NumbersThatLeave64BitsAreErrors) {
  EXPECT_THROW(pool_.scale(pool_.scale(a_, int64_t{1} << 40), int64_t{1} << 40), DataError);
  EXPECT_THROW(pool_.floor_divide(a_, 0), DataError);
  EXPECT_THROW(pool_.divide(a_, Affine::of(0)), DataError);
}

TEST_F(AffineForms, TheLesserOfTwoIsOneOfThemWhereTheirBoundsTellWhich) {
  const Affine more = pool_.add(a_, b_);  // by 0 to 3
  for (const auto& lesser : {pool_.minimum(more, a_), pool_.minimum(a_, more)}) EXPECT_EQ(text(lesser), "a");
  for (const auto& greater : {pool_.maximum(more, a_), pool_.maximum(a_, more)}) EXPECT_TRUE(pool_.same(greater, more));
}

TEST_F(AffineForms, WhatHasNoBoundsCannotBeRelaxed) {
  const Affine unbounded = pool_.variable(2, {0, kUnbounded}), bounded = pool_.variable(3, {0, kUnbounded - 1});
  const AffineInterval whole{Affine::of(0), Affine::of(1)};
  const auto relaxed = [&](const Affine& value) {
    return pool_.relax(value, [&](int32_t v) { return v == 1 ? &whole : nullptr; });
  };
  EXPECT_EQ(pool_.bounds(pool_.multiply(unbounded, b_)).high, kUnbounded);
  EXPECT_MESSAGE(foretime::testing::message_of<DataError>([&] { relaxed(pool_.multiply(unbounded, b_)); }));
  EXPECT_EQ(relaxed(pool_.less(bounded, b_)).high.base, 1);
}

}  // namespace
}  // namespace foretime::data
