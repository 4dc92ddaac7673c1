#include "data/frontends/loops/access_pattern.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "data/frontends/ansor/dag/expression.h"

namespace foretime::data {
namespace {

constexpr int64_t kSamples = 32;

int64_t round_up_divide(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

size_t position_of(std::span<const IndexLoop> loops, int32_t variable) {
  size_t i = 0;
  while (i < loops.size() && loops[i].variable != variable) ++i;
  return i;
}

}  // namespace

void AccessPattern::append(const AffinePool& pool, const Affine& index, std::span<const IndexLoop> loops,
                           int64_t elements, int32_t element_bytes, std::vector<LoopAccess>& out) {
  collect_terms(pool, index, loops);
  inner_.clear();
  const size_t first = out.size();
  out.resize(first + loops.size());
  for (size_t i = loops.size(); i-- > 0;) {
    LoopAccess& access = out[first + i];
    if (irregular_[i] || !split_into_digits(i, loops[i].extent)) sample(pool, index, loops[i]);
    access.stride = digits_.empty() ? 0 : digits_.front().stride;
    for (const Digit& digit : digits_) {
      if (digit.stride == 0) continue;
      access.distinct *= digit.extent;
      insert(digit);
    }
    footprint(elements, element_bytes, access);
  }
}

void AccessPattern::collect_terms(const AffinePool& pool, const Affine& index, std::span<const IndexLoop> loops) {
  if (terms_.size() < loops.size()) terms_.resize(loops.size());
  for (size_t i = 0; i < loops.size(); ++i) terms_[i].clear();
  irregular_.assign(loops.size(), 0);
  for (const AffineTerm& term : pool.terms(index)) {
    const AffineAtom& atom = pool.atom(term.atom);
    if (atom.kind == AtomKind::variable) {
      const size_t loop = position_of(loops, atom.variable);
      if (loop < loops.size()) terms_[loop].push_back({term.coefficient, 1});
      continue;
    }
    const auto inside = pool.terms(atom.arguments[0]);
    const bool digit = atom.kind == AtomKind::floor_divide && inside.size() == 1 && inside[0].coefficient == 1 &&
                       atom.arguments[0].base == 0 && pool.atom(inside[0].atom).kind == AtomKind::variable;
    if (digit) {
      const size_t loop = position_of(loops, pool.atom(inside[0].atom).variable);
      if (loop < loops.size()) terms_[loop].push_back({term.coefficient, atom.divisor});
    } else {
      mark_variables(pool, atom.self, loops);
    }
  }
}

bool AccessPattern::mark_variables(const AffinePool& pool, const Affine& value, std::span<const IndexLoop> loops) {
  bool any = false;
  for (const AffineTerm& term : pool.terms(value)) {
    const AffineAtom& atom = pool.atom(term.atom);
    if (atom.kind == AtomKind::variable) {
      const size_t loop = position_of(loops, atom.variable);
      if (loop < loops.size()) irregular_[loop] = any = true;
      continue;
    }
    for (const Affine& argument : atom.arguments) any |= mark_variables(pool, argument, loops);
  }
  return any;
}

bool AccessPattern::split_into_digits(size_t loop, int64_t extent) {
  digits_.clear();
  auto& terms = terms_[loop];
  if (terms.empty()) return true;
  std::ranges::sort(terms, [](const LoopTerm& a, const LoopTerm& b) { return a.divisor < b.divisor; });
  if (terms.front().divisor != 1) terms.insert(terms.begin(), {0, 1});
  int64_t stride = 0;
  for (size_t i = 0; i < terms.size() && terms[i].divisor < extent; ++i) {
    if (i > 0) {
      const int64_t ratio = terms[i].divisor / terms[i - 1].divisor;
      if (terms[i].divisor % terms[i - 1].divisor != 0) return false;
      if (ratio == 1) return false;  // a divisor occurs once: the pool merges equal atoms
      stride = checked_multiply(stride, ratio);
    }
    stride = checked_add(stride, terms[i].coefficient);
    const bool last = i + 1 == terms.size() || terms[i + 1].divisor >= extent;
    const int64_t upper = last ? extent : terms[i + 1].divisor;
    digits_.push_back({stride, round_up_divide(upper, terms[i].divisor)});
  }
  return true;
}

void AccessPattern::sample(const AffinePool& pool, const Affine& index, const IndexLoop& loop) {
  const int64_t count = std::min(loop.extent, kSamples);
  int64_t now = 0;
  const std::function<int64_t(int32_t)> value_of = [&](int32_t variable) {
    return variable == loop.variable ? now : 0;
  };
  values_.clear();
  for (int64_t i = 0; i < count; ++i) {
    now = count == loop.extent || i < 2 ? i : checked_multiply(i, loop.extent - 1) / (count - 1);
    values_.push_back(pool.evaluate(index, value_of));
  }
  digits_.clear();
  const int64_t stride = count > 1 ? values_[1] - values_[0] : 0;
  std::ranges::sort(values_);
  const int64_t span = values_.back() - values_.front();
  const int64_t found = std::unique(values_.begin(), values_.end()) - values_.begin();
  const int64_t distinct = std::max<int64_t>(1, checked_multiply(found, loop.extent) / count);
  digits_.push_back({stride, 1});  // first step; the rest is spread evenly over the span
  if (distinct > 1) digits_.push_back({std::max<int64_t>(1, span / (distinct - 1)), distinct});
}

void AccessPattern::insert(Digit digit) {
  if (digit.extent <= 1) return;
  digit.stride = std::abs(digit.stride);
  const auto place =
      std::ranges::upper_bound(inner_, digit, [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  inner_.insert(place, digit);
}

void AccessPattern::footprint(int64_t elements, int32_t element_bytes, LoopAccess& out) const {
  // Strides in ascending order: one that is a multiple of the run below it and not longer than it makes the run longer,
  // as a window that slides does; any other starts a new run.
  double count = 1.0, lines = 1.0;
  for (size_t i = 0; i < inner_.size();) {
    const int64_t unit = inner_[i].stride;
    double run = inner_[i].extent;
    for (++i; i < inner_.size() && inner_[i].stride % unit == 0; ++i) {
      const double step = inner_[i].stride / unit;
      if (step > run) break;
      run += step * (inner_[i].extent - 1);
    }
    const bool innermost = count == 1.0;
    count *= run;
    const double bytes = run * unit * element_bytes;
    lines *= innermost ? std::min(run, std::max(1.0, bytes / kLineBytes)) : run;
  }
  const double most = std::max<int64_t>(elements, 1);
  out.footprint = std::min(count, most);
  out.lines = std::min({lines, out.footprint, std::max(1.0, most * element_bytes / kLineBytes)});
}

}  // namespace foretime::data
