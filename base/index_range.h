#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace foretime {

/// Returns the value of an enumerator, as an index into a table with one entry for each enumerator in their order.
template <class Enum>
requires std::is_enum_v<Enum>
constexpr size_t index_of(Enum enumerator) { return static_cast<size_t>(enumerator); }

/// Holds the indices `first` … `last - 1`, for range-based loops.
class IndexRange {
 public:
  class Iterator {
   public:
    explicit Iterator(int64_t index) : index_(index) {}
    int64_t operator*() const { return index_; }
    [[gnu::always_inline]] Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    int64_t index_;
  };

  /// The range is empty if `last` is not above `first`.
  IndexRange(int64_t first, int64_t last) : first_(first), last_(last > first ? last : first) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(last_); }
  int64_t first() const { return first_; }
  int64_t last() const { return last_; }
  int64_t size() const { return last_ - first_; }

 private:
  int64_t first_, last_;
};

/// Returns the indices of the entries of row `row`. `row_ptr`, [rows + 1]: start of each row, end of the last one.
template <class Starts>
[[gnu::always_inline]] inline IndexRange entries_of(const Starts& row_ptr, int64_t row) {
  return IndexRange(row_ptr[row], row_ptr[row + 1]);
}

/// Returns the part of `values` that belongs to row `row`; `row_ptr` as in entries_of. Borrows `values`.
template <class Values, class Starts>
auto row_of(const Values& values, const Starts& row_ptr, int64_t row) {
  const IndexRange own = entries_of(row_ptr, row);
  return std::span(values).subspan(own.first(), own.size());
}

}  // namespace foretime
