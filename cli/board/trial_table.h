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

/// What sorting and plots need of a trial.
struct Trial {
  std::string id{}, name{}, state{};  // state as Redis has it
  int64_t trial = -1;
  std::optional<double> objective{}, best{}, step{}, seconds{}, finished{};
  std::map<std::string, std::string> parameters{};

  bool operator==(const Trial&) const = default;
  /// A number or a text to sort by: trial, state, objective, step, seconds, finished, or a parameter's name.
  std::pair<std::optional<double>, std::string> key(const std::string& sort) const;
  /// Whether the id, the name or the value of a parameter has this text.
  bool has(const std::string& text) const;
};

/// All trials of one sweep, kept between questions: what has changed is known from the queue's events, and reports of
/// jobs that run are read each time. For one thread.
class TrialTable {
 public:
  explicit TrialTable(std::string sweep) : sweep_(std::move(sweep)) {}
  /// Reads what has changed; everything where events were missed. `events` are fresh. Throws the errors of the reader.
  void refresh(jobs::QueueReader& reader, const QueueEvents& events);
  const std::vector<Trial>& trials() const { return trials_; }
  /// Rises when a trial has changed, come or gone.
  uint64_t version() const { return version_; }

 private:
  void read(jobs::QueueReader& reader, const std::vector<std::string>& ids);
  void read_ids(jobs::QueueReader& reader);

  const std::string sweep_;
  bool loaded_ = false;
  uint64_t version_ = 0;
  uint64_t next_ = 0;  // the event after those that are known
  std::vector<Trial> trials_;
  std::unordered_map<std::string, size_t> places_;
};

/// A number as Redis holds it, whole text; empty for anything else.
std::optional<double> number_of(std::string_view text);

}  // namespace foretime::cli
