#pragma once

#include <string>

#include <spdlog/logger.h>

namespace foretime::jobs {

/// When to talk to Redis again: after 1, 2, 4, … seconds with jitter, never more than `longest`. An outage is logged
/// once when it begins and once when it is over.
class Link {
 public:
  Link(std::string who, double longest_seconds, spdlog::logger& log)
      : who_(std::move(who)), longest_(longest_seconds), log_(log) {}
  bool open(double now) const { return now >= next_; }
  bool down() const { return failures_ > 0; }
  void failed(const std::string& what, double now);
  void worked(double now);

 private:
  std::string who_;
  double longest_;
  spdlog::logger& log_;
  int failures_ = 0;
  double next_ = 0, since_ = 0;
};

/// Seconds of a clock that is never set.
double steady_seconds();
/// In [0, 1).
double random_unit();
std::string random_hex(size_t digits);

}  // namespace foretime::jobs
