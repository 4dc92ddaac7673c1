#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

/// What a training measured at its steps: losses, rates, memory, metrics of evaluations.
namespace foretime::history {

/// A packed history that is damaged, or of a newer program.
struct HistoryError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

struct Point {
  int64_t step = 0;
  double value = 0;  // may be NaN or infinite
  bool operator==(const Point&) const = default;
};

/// By rising steps.
using Series = std::vector<Point>;

/// Series by name, each with a bounded number of points if asked for.
class History {
 public:
  static constexpr size_t kSeries = 600;  // of more, those that came first

  /// `most`: points that a series has at most, 2 or more. Of a longer series the first and the last point are kept, and
  /// between them some at about equal distances in steps. 0: any number.
  explicit History(size_t most = 0) : most_(most) {}

  /// Values that were measured at `step`. Points of later steps go: a training that goes on from a checkpoint does
  /// those steps again. So does the point that a series has of this very step.
  void add(int64_t step, const std::map<std::string, double>& values);

  /// Drops the points of one series from a step on.
  void forget(const std::string& name, int64_t from_step);

  const std::map<std::string, Series>& series() const { return series_; }
  bool empty() const { return series_.empty(); }
  /// The largest step; -1 where it is empty.
  int64_t last_step() const { return last_step_; }
  bool operator==(const History& other) const { return series_ == other.series_; }

 private:
  friend History unpack(const std::string& text, size_t most);
  void rewind(int64_t step);
  void add_bounded(Series& points, int64_t& distance, const Point& point) const;

  size_t most_;
  int64_t last_step_ = -1;
  std::map<std::string, Series> series_;
  /// Steps between two points of a bounded series, at least, but for the last point.
  std::map<std::string, int64_t> distances_;
};

/// At most `most` points, evenly chosen, with the first and the last one.
Series thinned(const Series& series, size_t most);

/// What a packed history keeps.
struct PackRequest {
  size_t bytes = 8192;                  // of the text
  int digits = 4;                       // of a value: 4 keep it to 1/32768 of itself, 3 to 1/512
  std::vector<std::string> first = {};  // series that get more points, the first one most; others follow by name
  bool others = true;                   // series that `first` does not name are kept, where there is room
};

/// The history as text, thinned to fit: a line each series, "NAME STEPS VALUES". NAME has %XX for spaces, control
/// characters, % and bytes past ASCII. STEPS is the first step, then +DISTANCExTIMES for each row of equal distances
/// (without xTIMES for one). VALUES are the upper bits of a float32 each, as many base64url digits as each other.
/// Empty for an empty history. docs/reference/jobs.md documents it.
std::string pack(const History& history, const PackRequest& request);
/// Values are the shortest decimal numbers that pack alike. Throws HistoryError.
History unpack(const std::string& text, size_t most = 0);

/// A header, then a line for each step at which anything was measured; empty where a series has no value there.
std::string to_csv(const History& history);
/// {"loss": {"steps": […], "values": […]}, …}; null stands for what is no finite number. Series of more points than
/// `most` are `thinned`; 0: none is.
nlohmann::json to_json(const History& history, size_t most = 0);

}  // namespace foretime::history
