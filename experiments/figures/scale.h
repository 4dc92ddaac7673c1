#pragma once

#include <string>
#include <vector>

namespace foretime::figures {

/// How an axis reads.
struct Axis {
  std::string title;          // with its unit
  bool log = false;           // values of 0 and below are not drawn
  bool percent = false;       // labels are 100 times the value, with %
  std::vector<double> ticks;  // empty: chosen; those outside of the range are left out
};

/// The least interval that holds some values.
struct Range {
  double low = 0, high = 0;
  bool empty = true;

  /// Leaves out what is not finite, and on a logarithmic axis what is not above 0.
  void include(double value, bool log);
};

struct Tick {
  double value = 0;
  std::string label;
};

/// Values to pixels.
class Scale {
 public:
  /// `range` is widened a little, so that nothing lies on the frame; an empty one, or one of a single value, becomes an
  /// interval around it. `from`, `to`: pixels of its low and its high end.
  Scale(const Axis& axis, const Range& range, double from, double to);

  /// NaN where the value has no place: not finite, or 0 and below on a logarithmic axis.
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  /// The axis's own ticks, or about as many round values as there is room for; at least two, unless it has its own.
  std::vector<Tick> ticks() const;

 private:
  std::vector<double> linear_steps(int about) const;
  std::vector<double> log_steps(int about) const;
  std::string label(double value, int digits) const;

  Axis axis_;
  double low_, high_, from_, to_;
};

}  // namespace foretime::figures
