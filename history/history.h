#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

/// Stores the measurements of a training at its steps: losses, rates, memory, metrics of evaluations.
namespace foretime::history {

/// Reports a packed history that is damaged or written by a newer program.
struct HistoryError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

struct Point {
  int64_t step = 0;
  double value = 0;  // may be NaN or infinite
  bool operator==(const Point&) const = default;
};

/// Holds points by rising steps.
using Series = std::vector<Point>;

/// Holds series by name, optionally with a bounded number of points each.
class History {
 public:
  static constexpr size_t kSeries = 600;  // further series are ignored

  /// Starts empty. `most` is the largest number of points in a series, 2 or more; 0: unlimited. A longer series keeps
  /// the first and the last point, and between them points at about equal distances in steps.
  explicit History(size_t most = 0) : most_(most) {}

  /// Adds values measured at `step`. Removes all points of later steps, since a training that continues from a
  /// checkpoint repeats these steps, and the point of this step in the same series.
  void add(int64_t step, const std::map<std::string, double>& values);

  /// Removes the points of one series from a step on.
  void remove_points(const std::string& name, int64_t from_step);

  const std::map<std::string, Series>& series() const { return series_; }
  bool empty() const { return series_.empty(); }
  /// Returns the largest step; -1 if the history is empty.
  int64_t last_step() const { return last_step_; }
  bool operator==(const History& other) const { return series_ == other.series_; }

 private:
  friend History unpack(const std::string& text, size_t most);
  /// Removes the points of all series from `step` on.
  void rewind(int64_t step);
  /// Adds a point, and thins the series if it has too many.
  void add_bounded(Series& points, int64_t& distance, const Point& point) const;

  size_t most_;
  int64_t last_step_ = -1;
  std::map<std::string, Series> series_;
  /// Holds the minimum distance in steps between two points of a bounded series, except for the last point.
  std::map<std::string, int64_t> distances_;
};

/// Returns at most `most` points, evenly chosen, including the first and the last one.
Series thinned(const Series& series, size_t most);

/// Sets the size and precision of a packed history.
struct PackRequest {
  size_t bytes = 8192;                  // size of the text
  int digits = 4;                       // base64url digits of a value: 4 are exact to 1/32768 of it, 3 to 1/512
  std::vector<std::string> first = {};  // series with more points, the first one most; others follow by name
  bool others = true;                   // keep series not named in `first` if they fit
};

/// Returns the history as text, thinned to fit: a line for each series, "NAME STEPS VALUES". NAME has %XX for spaces,
/// control characters, % and bytes beyond ASCII. STEPS is the first step, then +DISTANCExTIMES for each row of equal
/// distances (without xTIMES for one). VALUES are the upper bits of a float32 each, with equally many base64url digits.
/// Empty for an empty history. docs/reference/jobs.md documents it.
std::string pack(const History& history, const PackRequest& request);
/// Parses a packed history; values become the shortest decimal numbers with the same packed form. Throws HistoryError.
History unpack(const std::string& text, size_t most = 0);

/// Returns CSV: a header, then a line for each step with any value; missing values are empty.
std::string to_csv(const History& history);
/// Returns {"loss": {"steps": […], "values": […]}, …}; null replaces numbers that are not finite. Series of more points
/// than `most` are `thinned`; 0: no limit.
nlohmann::json to_json(const History& history, size_t most = 0);

}  // namespace foretime::history
