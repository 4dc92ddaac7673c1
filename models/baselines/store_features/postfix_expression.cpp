#include "models/baselines/store_features/postfix_expression.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/index_range.h"
#include "data/frontends/ansor/dag/expression.h"

namespace foretime::models {
namespace {

using OperationKind = IndexOperation::Kind;

/// Divisors that may be 0 are taken to be at least 1.
data::AffineBounds divided(const data::AffineBounds& a, data::AffineBounds b) {
  if (b.low == 0) b.low = 1;
  if (b.low <= 0) return {-data::kUnbounded, data::kUnbounded};
  b.high = std::max(b.high, b.low);
  const auto [low, high] = std::minmax({data::bound_quotient(a.low, b.low), data::bound_quotient(a.low, b.high),
                                        data::bound_quotient(a.high, b.low), data::bound_quotient(a.high, b.high)});
  return {low, high};
}

data::AffineBounds remainder(const data::AffineBounds& a, data::AffineBounds b) {
  if (b.low == 0) b.low = 1;
  if (b.low <= 0) return {-data::kUnbounded, data::kUnbounded};
  if (a.low < 0) return {0, b.high - 1};
  return a.high < b.low ? a : data::AffineBounds{0, std::min(a.high, b.high - 1)};
}

data::AffineBounds combined(OperationKind kind, const data::AffineBounds& a, const data::AffineBounds& b,
                            const data::AffineBounds& c) {
  switch (kind) {
    case OperationKind::add: return {data::bound_sum(a.low, b.low), data::bound_sum(a.high, b.high)};
    case OperationKind::subtract: return {data::bound_sum(a.low, -b.high), data::bound_sum(a.high, -b.low)};
    case OperationKind::multiply: return data::bound_product(a, b);
    case OperationKind::divide:
    case OperationKind::truncate_divide: return divided(a, b);
    case OperationKind::modulo: return remainder(a, b);
    case OperationKind::minimum: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case OperationKind::maximum: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case OperationKind::select: return {std::min(b.low, c.low), std::max(b.high, c.high)};
    default: return {0, 1};
  }
}

size_t operands(OperationKind kind) {
  if (kind == OperationKind::constant || kind == OperationKind::variable) return 0;
  if (kind == OperationKind::logical_not) return 1;
  return kind == OperationKind::select ? 3 : 2;
}

}  // namespace

void PostfixExpressions::push(OperationKind kind, int64_t value) {
  if (operations_.size() >= kMost)
    throw DataError("the index expressions of a program have more than {} operations, far above any real program",
                    kMost);
  operations_.push_back({kind, value});
}

PostfixExpressions::Postfix PostfixExpressions::write(const data::Affine& value, const data::Affine& subtracted) {
  Postfix form;
  form.begin = operations_.size();
  write_value(value, subtracted);
  form.size = std::ssize(operations_) - form.begin;
  for (const auto& operation : operations(form))
    if (operation.kind == OperationKind::variable) form.variables |= uint64_t{1} << (operation.value & 63);
  return form;
}

void PostfixExpressions::join_equal_parts(size_t begin) {
  for (size_t i = begin; i < parts_.size(); ++i) {
    for (size_t j = parts_.size(); j-- > i + 1;) {
      const bool equal = parts_[i].divisor == parts_[j].divisor && parts_[i].modulus == parts_[j].modulus &&
                         pool_->same(parts_[i].of, parts_[j].of);
      if (!equal) continue;
      parts_[i].coefficient = data::checked_add(parts_[i].coefficient, parts_[j].coefficient);
      parts_.erase(parts_.begin() + j);
    }
  }
}

void PostfixExpressions::write_value(const data::Affine& value, const data::Affine& subtracted) {
  if (value.constant()) return push(OperationKind::constant, value.base);
  const size_t begin = parts_.size();
  int64_t base = pool_->parts(subtracted.constant() ? value : pool_->add(value, subtracted), parts_);
  if (!subtracted.constant()) base += pool_->parts(pool_->scale(subtracted, -1), parts_);
  for (size_t i = begin; i < parts_.size(); ++i) pool_->merge_divisions(parts_[i]);
  if (!subtracted.constant()) join_equal_parts(begin);
  const size_t end = parts_.size();
  const auto upper = [](const data::AffinePart& part) {
    int64_t upper = std::numeric_limits<int64_t>::max();
    if (part.modulus > 0 && __builtin_mul_overflow(part.divisor, part.modulus, &upper))
      upper = std::numeric_limits<int64_t>::max();
    return upper;
  };
  std::stable_sort(parts_.begin() + begin, parts_.end(), [&](const data::AffinePart& a, const data::AffinePart& b) {
    if (a.coefficient != b.coefficient) return a.coefficient > b.coefficient;
    if (a.divisor != b.divisor) return a.divisor > b.divisor;
    return upper(a) > upper(b);
  });
  bool any = false;
  for (size_t i = begin; i < end; ++i) {
    const data::AffinePart part = parts_[i];
    if (part.coefficient <= 0) continue;
    write_part(part, part.coefficient);
    if (any) push(OperationKind::add);
    any = true;
  }
  if (base > 0 || !any) {
    push(OperationKind::constant, std::max<int64_t>(base, 0));
    if (any) push(OperationKind::add);
  }
  for (size_t i = begin; i < end; ++i) {
    const data::AffinePart part = parts_[i];
    if (part.coefficient >= 0) continue;
    write_part(part, -part.coefficient);
    push(OperationKind::subtract);
  }
  if (base < 0) {
    push(OperationKind::constant, -base);
    push(OperationKind::subtract);
  }
  parts_.resize(begin);
}

void PostfixExpressions::write_part(data::AffinePart part, int64_t scale) {
  if (part.divisor > 1 && part.of.count > 1) {
    // ((x mod u) / l) / d is (x mod u) / (l·d).
    const size_t begin = parts_.size();
    const int64_t base = pool_->parts(part.of, parts_);
    const data::AffinePart inner = parts_.back();
    const bool single = base == 0 && parts_.size() == begin + 1 && inner.coefficient == 1;
    parts_.resize(begin);
    if (single) {
      part.divisor = data::checked_multiply(part.divisor, inner.divisor);
      if (part.modulus == 0)
        return write_divided(inner.of, data::checked_multiply(inner.divisor, inner.modulus), 0, part.divisor, scale);
      return write_divided(inner.of, data::checked_multiply(inner.divisor, inner.modulus),
                           data::checked_multiply(part.divisor, part.modulus), part.divisor, scale);
    }
  }
  write_divided(part.of, part.modulus > 0 ? data::checked_multiply(part.divisor, part.modulus) : 0, 0, part.divisor,
                scale);
}

void PostfixExpressions::write_divided(const data::Affine& value, int64_t upper, int64_t second, int64_t divisor,
                                       int64_t scale) {
  if (pool_->is_atom(value)) write_atom(pool_->terms(value)[0].atom);
  else write_value(value);
  const auto apply = [&](int64_t number, OperationKind kind) {
    push(OperationKind::constant, number);
    push(kind);
  };
  if (upper > 0) apply(upper, OperationKind::modulo);
  if (second > 0) apply(second, OperationKind::modulo);
  if (divisor != 1) apply(divisor, OperationKind::divide);
  if (scale != 1) apply(scale, OperationKind::multiply);
}

void PostfixExpressions::write_atom(uint32_t id) {
  const data::AffineAtom atom = pool_->atom(id);
  using enum IndexOperation::Kind;
  // By AtomKind.
  static constexpr OperationKind kOperations[] = {variable,   divide,          divide, minimum, maximum,
                                                  multiply,   truncate_divide, equal,  less,    logical_and,
                                                  logical_or, logical_not,     select};
  const OperationKind kind = kOperations[index_of(atom.kind)];
  if (kind == variable) return push(variable, atom.variable);
  const bool by_number = atom.kind == data::AtomKind::floor_divide;
  for (size_t i = 0; i < (by_number ? 1 : operands(kind)); ++i) write_value(atom.arguments[i]);
  if (by_number) push(constant, atom.divisor);
  push(kind);
}

void PostfixExpressions::count(const Postfix& form, IntegerOperations& counts) const {
  for (const auto& [kind, value] : operations(form)) {
    if (kind <= OperationKind::variable) continue;
    ++(kind <= OperationKind::subtract          ? counts.add_subtract
       : kind == OperationKind::multiply        ? counts.multiply
       : kind <= OperationKind::truncate_divide ? counts.divide_modulo
       : kind <= OperationKind::less            ? counts.compare
       : kind <= OperationKind::logical_not     ? counts.logic
                                                : counts.select);
  }
}

bool PostfixExpressions::mentions(const Postfix& form, int32_t variable) const {
  if ((form.variables >> (variable & 63) & 1) == 0) return false;
  const auto all = operations(form);
  return std::ranges::any_of(all, [&](const IndexOperation& operation) {
    return operation.kind == OperationKind::variable && operation.value == variable;
  });
}

data::AffineBounds PostfixExpressions::bounds(const Postfix& form, std::span<const int64_t> largest) {
  if (form.size == 0) return {-data::kUnbounded, data::kUnbounded};
  stack_.clear();
  for (const auto& operation : operations(form)) {
    if (operation.kind == OperationKind::constant) {
      stack_.push_back({operation.value, operation.value});
      continue;
    }
    if (operation.kind == OperationKind::variable) {
      stack_.push_back({0, largest[operation.value]});
      continue;
    }
    const size_t count = operands(operation.kind);
    data::AffineBounds& a = stack_[stack_.size() - count];
    a = combined(operation.kind, a, stack_[stack_.size() - count + (count > 1 ? 1 : 0)], stack_.back());
    stack_.resize(stack_.size() - count + 1);
  }
  return stack_.back();
}

int64_t PostfixExpressions::coefficient(const Postfix& form, int32_t variable, bool& found) const {
  constexpr int64_t kGuess = 2;
  bool seen = false, multiplied = false, added = false;
  int64_t stride = 0;
  const auto all = operations(form);
  if ((form.variables >> (variable & 63) & 1) != 0) {
    for (size_t i = 0; i < all.size(); ++i) {
      switch (all[i].kind) {
        case OperationKind::variable:
          if (all[i].value != variable) break;
          seen = true;
          stride = kGuess;
          break;
        case OperationKind::multiply:
          // A factor stands second, as a constant right before its product.
          if (!seen || added || all[i - 1].kind != OperationKind::constant) break;
          multiplied = true;
          stride = all[i - 1].value;
          break;
        case OperationKind::add:
          if (!seen || multiplied) break;
          added = true;
          stride = 1;
          break;
        default: break;
      }
    }
  }
  found = seen;
  return seen && !multiplied && !added ? 1 : stride;
}

}  // namespace foretime::models
