#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/board/queue_events.h"
#include "jobs/queue/queue_reader.h"

namespace foretime::cli {

/// Holds the values of a trial for sorting and plots.
struct Trial {
  std::string id{}, name{}, state{};                    // state: the word in Redis, "" if not read yet
  int64_t trial = -1;                                   // number of the trial in its sweep; -1: unknown
  std::optional<double> objective{}, best{};            // objective; best objective so far
  std::optional<double> step{}, seconds{}, finished{};  // last step; duration; end, in milliseconds since 1970
  std::map<std::string, std::string> parameters{};

  bool operator==(const Trial&) const = default;
  /// Returns the number and the text that a trial is sorted by: trial, state, objective, step, seconds, finished, or a
  /// parameter's name. Both are empty if the trial has no such value.
  std::pair<std::optional<double>, std::string> key(const std::string& sort) const;
  /// Returns whether the id, the name or the value of a parameter contains `text`.
  bool has(const std::string& text) const;
};

/// Holds all trials of one sweep between requests. Not thread-safe.
class TrialTable {
 public:
  explicit TrialTable(std::string sweep) : sweep_(std::move(sweep)) {}
  /// Reads the trials that events name and those of running jobs; all trials if events were missed. `events` must have
  /// been refreshed just before. Throws the errors of the reader.
  void refresh(jobs::QueueReader& reader, const QueueEvents& events);
  const std::vector<Trial>& trials() const { return trials_; }
  /// Returns a number that increases whenever a trial is changed, added or removed.
  uint64_t version() const { return version_; }

 private:
  void read(jobs::QueueReader& reader, const std::vector<std::string>& ids);  // removes trials that are gone
  void read_ids(jobs::QueueReader& reader);                                   // adds new trials without values

  const std::string sweep_;
  bool loaded_ = false;
  uint64_t version_ = 0;
  uint64_t next_ = 0;  // number of the first unread event
  std::vector<Trial> trials_;
  std::unordered_map<std::string, size_t> places_;  // id → index in trials_
};

}  // namespace foretime::cli
