#pragma once

#include <limits>
#include <string>
#include <vector>

/// What a setting may be, as data: checked on loading and printed on the reference page.
namespace foretime::configs {

/// Numbers: an interval. Strings: a set of names, or merely not empty. Lists: the same for each element.
/// A default Bound allows everything.
struct Bound {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
  std::vector<std::string> names = {};  // empty: any
  bool filled = false;                  // a string or list that must not be empty

  bool allows(double value) const;
  bool allows(const std::string& value) const;
  /// Every element, and the list's emptiness.
  bool allows(const std::vector<std::string>& values) const;
  /// `> 0`, `>= 1`, `in [0, 1)`, `one of a, b`, `one or more of a, b`, `not empty`; empty where everything is allowed.
  std::string text() const;
};

Bound above(double low);
Bound at_least(double low);
Bound between(double low, double high);         // [low, high]
Bound above_up_to(double low, double high);     // (low, high]
Bound from_to_below(double low, double high);   // [low, high)
Bound one_of(std::vector<std::string> names);   // for a list: each element
Bound some_of(std::vector<std::string> names);  // for a list: each element, and at least one
Bound not_empty();

}  // namespace foretime::configs
