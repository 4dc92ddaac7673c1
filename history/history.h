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

/// Holds points whose steps rise strictly.
using Series = std::vector<Point>;

/// Holds series by name, optionally with a bounded number of points each.
class History {
 public:
  static constexpr size_t kSeries = 600;  // largest number of series; values of further series are ignored

  /// Starts empty. `most` is the largest number of points in a series, 2 or more; 0: unlimited. A longer series keeps
  /// the first and the last point, and between them points at about equal distances in steps.
  explicit History(size_t most = 0) : most_(most) {}

  /// Adds one point at `step` to each series that `values` names. A series that has a point at `step` gets the new
  /// value instead. If `step` is before last_step(), all points of later steps are first removed from all series, since
  /// a training that continues from a checkpoint repeats these steps.
  void add(int64_t step, const std::map<std::string, double>& values);

  /// Removes the points of series `name` at `from_step` and later; nothing if there is no such series.
  void remove_points(const std::string& name, int64_t from_step);

  const std::map<std::string, Series>& series() const { return series_; }
  bool empty() const { return series_.empty(); }
  /// Returns the step of the latest add(), after unpack() the largest step; -1 before the first value.
  int64_t last_step() const { return last_step_; }
  bool operator==(const History& other) const { return series_ == other.series_; }

 private:
  friend History unpack(const std::string& text, size_t most);
  void rewind(int64_t step);  // removes the points of all series after `step`
  /// Adds a point to the end of a series; thins it above most_ points. `distance` is the series' entry in distances_.
  void add_bounded(Series& points, int64_t& distance, const Point& point) const;

  size_t most_;
  int64_t last_step_ = -1;
  std::map<std::string, Series> series_;
  /// Holds the minimum distance in steps between two points of a bounded series, except for the last point.
  std::map<std::string, int64_t> distances_;
};

/// Returns at most `most` points, evenly chosen, with the first and the last one; 1: only the last one, 0: none.
Series thinned(const Series& series, size_t most);

/// Sets the size and precision of a packed history.
struct PackRequest {
  size_t bytes = 8192;                  // largest size of the text
  int digits = 4;                       // base64url digits of a value, 2 to 5; relative error: 4: 1/32768, 3: 1/512
  std::vector<std::string> first = {};  // series that precede the others and get more points, the first one most
  bool others = true;                   // series not named in `first` follow, by name
};

/// Returns the history as text of at most `request.bytes` bytes: a line "NAME STEPS VALUES" for each series. Series are
/// thinned to fit; if a few points of each do not fit, the last series are left out. NAME has %XX for spaces, control
/// characters, % and bytes beyond ASCII. STEPS is the first step, then +DISTANCExTIMES for each row of equal distances
/// (without xTIMES for one). VALUES are the upper bits of a float32 each, with equally many base64url digits. Returns
/// "" if nothing fits, and for an empty history. docs/reference/jobs.md documents the format.
std::string pack(const History& history, const PackRequest& request);
/// Parses a packed history; each value becomes the shortest decimal number with its packed form. Series after
/// History::kSeries are left out. `most` limits later calls of add(). Throws HistoryError for text of another form.
History unpack(const std::string& text, size_t most = 0);

/// Returns CSV: "step,NAME,…", then a line for each step of any series; empty: no value; numbers may be nan or inf.
std::string to_csv(const History& history);
/// Returns {"loss": {"steps": […], "values": […]}, …}; null replaces numbers that are not finite. Series of more points
/// than `most` are `thinned`; 0: no limit.
nlohmann::json to_json(const History& history, size_t most = 0);

}  // namespace foretime::history
