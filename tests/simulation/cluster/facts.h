#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/redis/redis_model.h"
#include "tests/simulation/scheduler.h"

namespace foretime::simulation {

/// What the keys of Redis have said of each job so far, held against what they say after each command. Only the jobs
/// that a command touched are looked at, so that it costs little; the rest is as it was.
class Facts {
 public:
  /// `fail` gets what does not hold, and does not return.
  Facts(const RedisModel& model, std::function<void(const std::string&)> fail)
      : model_(model), fail_(std::move(fail)) {}

  /// `told`: jobs of which the command's entries in the event stream speak. A job that it touched
  ///
  /// - is there, unless its end was told, and stands in the indexes of its state and in no others,
  /// - has changed its state, its fence or its token only where that was told, and its fence has not fallen,
  /// - has its result as it was written, once it has succeeded.
  void after_command(const std::set<std::string>& told, Time now);

  /// Redis came back. `lossless`: with all that it had acknowledged; otherwise with all but its last two seconds.
  void after_crash(bool lossless, Time now);
  int64_t looks() const { return looks_; }  // at a job

 private:
  struct Fact {
    std::string state, fence, token, result;
    Time changed = 0;
    bool same_as(const Fact& other) const {
      return state == other.state && fence == other.fence && token == other.token && result == other.result;
    }
  };
  static Fact fact_of(const Hash& record);
  const Hash* record_of(const std::string& job) const;
  const SortedSet* index(const std::string& name) const;
  void look_at(const std::string& job, bool told, Time now);
  void check_indexes(const std::string& job, const std::string& state);

  const RedisModel& model_;
  std::function<void(const std::string&)> fail_;
  std::map<std::string, Fact> facts_;  // by job
  int64_t looks_ = 0;
};

}  // namespace foretime::simulation
