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

/// One transition of a job (docs/reference/jobs.md, Events).
struct QueueEvent {
  int64_t time_ms = 0;  // Redis' clock
  std::string event{}, job{}, from{}, to{}, fence{}, agent{}, why{};
};

/// Holds the newest transitions of a queue and reads new ones: Redis keeps about 10,000, this object kMost. Not
/// thread-safe.
class QueueEvents {
 public:
  static constexpr size_t kMost = 20'000;

  /// Reads the stream with key `stream`. `client` must outlive this object.
  QueueEvents(jobs::RedisClient& client, std::string stream) : client_(client), stream_(std::move(stream)) {}

  /// Reads new events. Throws the errors of Redis. If the key of the stream has another type, there are no events, and
  /// followers have missed some.
  void refresh();
  /// Returns the number of the oldest event in memory. Earlier events are unknown or were dropped.
  uint64_t first() const { return first_; }
  uint64_t end() const { return first_ + events_.size(); }
  const QueueEvent& operator[](uint64_t number) const { return events_[number - first_]; }
  const std::deque<QueueEvent>& all() const { return events_; }

 private:
  void read_new();
  /// Drops all events after Redis has lost the stream.
  void restart();

  jobs::RedisClient& client_;
  const std::string stream_;
  std::string last_;  // id of the newest entry
  uint64_t first_ = 0;
  std::deque<QueueEvent> events_;
};

/// Returns how many jobs waited and ran at the ends of equal spans up to `now_ms`, and how many ended in each:
/// {"every_ms", "times", "waiting", "active", "ended", "failed"}; null for unknown values. `counts` are the current
/// ones.
nlohmann::json activity_of(const std::deque<QueueEvent>& events, const std::map<jobs::JobState, int64_t>& counts,
                           int64_t now_ms, int64_t minutes);

/// Returns the transitions of one job, oldest first: [{"time_ms", "event", "from", "to", "fence", "agent", "why"}].
nlohmann::json events_of(const std::deque<QueueEvent>& events, const std::string& job);

}  // namespace foretime::cli
