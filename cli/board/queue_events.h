#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "jobs/queue/job.h"
#include "jobs/redis/redis_client.h"

namespace foretime::cli {

/// Holds one transition of a job (docs/reference/jobs.md, Events). Texts are "" if the event does not have the field.
struct QueueEvent {
  int64_t time_ms = 0;                                                // time by the clock of Redis
  std::string event{}, job{}, from{}, to{}, fence{}, agent{}, why{};  // states of the job: `from`, `to`
};

/// Holds the newest transitions of a queue, at most kMost, and numbers them from 0. Redis keeps about 10,000. Not
/// thread-safe.
class QueueEvents {
 public:
  static constexpr size_t kMost = 20'000;

  /// Reads the stream with key `stream`. `client` must outlive this object.
  QueueEvents(jobs::RedisClient& client, std::string stream) : client_(client), stream_(std::move(stream)) {}

  /// Reads new events. Throws the errors of Redis. If Redis has lost the stream, or its key has another type, all
  /// events in memory are dropped, and `first` increases, so that readers see that they have missed some.
  void refresh();
  /// Returns the number of the oldest event in memory.
  uint64_t first() const { return first_; }
  /// Returns the number that the next event will get.
  uint64_t end() const { return first_ + events_.size(); }
  /// Returns an event; its number must be from `first` to below `end`.
  const QueueEvent& operator[](uint64_t number) const { return events_[number - first_]; }
  const std::deque<QueueEvent>& all() const { return events_; }

 private:
  void read_new();
  /// Drops all events and skips a number.
  void restart();

  jobs::RedisClient& client_;
  const std::string stream_;
  std::string last_;  // id of the newest entry of the stream that was read
  uint64_t first_ = 0;
  std::deque<QueueEvent> events_;
};

/// Returns how many jobs waited and were active at the ends of 60 equal spans of the last `minutes` up to `now_ms`, and
/// how many ended (cancelled ones do not count) and failed in each: {"every_ms", "times", "waiting", "active", "ended",
/// "failed"}; null for spans before the known events. `counts` are the current numbers of jobs.
nlohmann::json activity_of(const std::deque<QueueEvent>& events, const std::map<jobs::JobState, int64_t>& counts,
                           int64_t now_ms, int64_t minutes);

/// Returns the transitions of one job, oldest first: [{"time_ms", "event", "from", "to", "fence", "agent", "why"}].
nlohmann::json events_of(const std::deque<QueueEvent>& events, const std::string& job);

}  // namespace foretime::cli
