#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "tests/simulation/redis/redis_arguments.h"
#include "tests/simulation/redis/redis_values.h"

struct lua_State;

namespace foretime::simulation {

/// The subset of Redis 7.0 that the queue uses, in memory, for one thread: the commands of jobs/queue, and EVALSHA with
/// the queue's real scripts in Lua 5.1, the Lua of Redis. Nothing in it is random and its clock is the caller's, so
/// what it does is decided by what it is asked. tests/simulation/redis_model_test.cpp holds it against a real Redis.
///
/// Source of the semantics: redis.io/commands, and script.c, script_lua.c, t_zset.c of Redis 7.0.
class RedisModel {
 public:
  using Command = std::vector<std::string>;

  /// `now_us` is Redis' own clock: microseconds since 1970.
  explicit RedisModel(std::function<int64_t()> now_us);
  ~RedisModel();
  RedisModel(const RedisModel&) = delete;
  RedisModel& operator=(const RedisModel&) = delete;

  Answer run(const Command& command);

  /// From here on, answers LOADING, READONLY, OOM or MISCONF as Redis does in that state.
  struct Trouble {
    bool loading = false;
    bool replica = false;  // refuses writes
    /// Above maxmemory: refuses what may take memory, but not in a script that wrote already or has flag allow-oom.
    bool full = false;
    bool disk_error = false;     // the last save failed: refuses writes
    std::string authentication;  // an error that every command answers, for example "NOAUTH Authentication required."
  };
  Trouble trouble;

  /// Changes a script before it is compiled: to break it, and see who notices.
  std::function<std::string(std::string)> edit_script;

  /// Gets what is published; returns how many got it.
  std::function<int64_t(const std::string& channel, const std::string& text)> publish;

  /// What is on disk: with appendfsync everysec Redis fsyncs each second, and a crash loses what came after. A script's
  /// writes are one unit.
  void fsync();
  /// Units of writes since the last fsync.
  size_t unsynced() const { return log_.size(); }
  /// The process dies; of the units since the last fsync the first `kept` are on disk. Scripts are forgotten.
  void crash(size_t kept);

  /// For invariants: all keys with their values; expired ones may still be there.
  const std::unordered_map<std::string, Value>& keys() const { return data_.keys; }
  /// Of the last command that was run, until the next fsync: what it wrote.
  const std::vector<Command>& last_writes() const {
    static const std::vector<Command> none;
    return wrote_ && !log_.empty() ? log_.back() : none;
  }
  size_t bytes() const;  // roughly, of all keys and values
  int64_t commands() const { return commands_; }

 private:
  struct Data {
    std::unordered_map<std::string, Value> keys;
    std::unordered_map<std::string, int64_t> expires_ms;
  };
  struct Handler {
    size_t least = 1;  // elements of the command
    bool writes = false, grows = false;
    Answer (RedisModel::*run)(const Command&) = nullptr;
  };
  static const std::unordered_map<std::string, Handler>& handlers();
  friend struct LuaCalls;

  /// One command, of a client or of a script.
  Answer perform(const Command& command);
  void record(Command command) { unit_.push_back(std::move(command)); }
  void commit();

  template <class T>
  T* find(const std::string& key);
  template <class T>
  T& make(const std::string& key);
  void drop_if_empty(const std::string& key);
  int64_t now_ms() const { return now_us_() / 1000; }
  bool expired(const std::string& key);

  // Commands.

  // redis_scripts.cpp
  Answer evaluate(const Command& command);
  Answer load(const Command& command);
  // redis_keys.cpp
  Answer ping(const Command&);
  Answer info(const Command&);
  Answer config(const Command&);
  Answer client(const Command&);
  Answer select(const Command&);
  Answer time(const Command&);
  Answer get(const Command&);
  Answer set(const Command&);
  Answer incr(const Command&);
  Answer persist(const Command&);
  Answer del(const Command&);
  Answer exists(const Command&);
  Answer type(const Command&);
  Answer names(const Command&);
  // redis_collections.cpp
  Answer hset(const Command&);
  Answer hsetnx(const Command&);
  Answer hget(const Command&);
  Answer hmget(const Command&);
  Answer hgetall(const Command&);
  Answer hstrlen(const Command&);
  Answer memory(const Command&);  // USAGE: of a hash, the bytes of its fields
  Answer hincrby(const Command&);
  Answer hdel(const Command&);
  Answer sadd(const Command&);
  Answer srem(const Command&);
  Answer scard(const Command&);
  Answer sismember(const Command&);
  Answer smembers(const Command&);
  Answer srandmember(const Command&);
  Answer rpush(const Command&);
  Answer lrange(const Command&);
  Answer ltrim(const Command&);
  // redis_sorted_sets.cpp
  Answer zadd(const Command&);
  Answer zrem(const Command&);
  Answer zcard(const Command&);
  Answer zscore(const Command&);
  Answer zcount(const Command&);
  Answer zrange(const Command&);
  Answer zrevrange(const Command&);
  Answer ranked(const Command&, bool descending);
  Answer zrangebyscore(const Command&);
  Answer zrangebylex(const Command&);
  // redis_streams.cpp
  Answer publish_text(const Command&);
  Answer xadd(const Command&);
  Answer xrange(const Command&);
  Answer xrevrange(const Command&);

  std::function<int64_t()> now_us_;
  Data data_;
  Data on_disk_;                           // as of the last fsync
  std::vector<std::vector<Command>> log_;  // units of writes since then
  std::vector<Command> unit_;              // of the script or command that runs
  bool wrote_ = false;                     // the last command did
  bool replaying_ = false, in_script_ = false, script_wrote_ = false, allow_oom_ = false;
  int64_t commands_ = 0;
  Command of_script_;  // the command that a script calls
  struct Lua;
  std::unique_ptr<Lua> interpreter_;
  lua_State* lua_;
  /// Of the line "#!lua flags=…" that a script may begin with.
  struct Flags {
    bool declared = false, allow_oom = false;
  };
  struct LoadedScript {
    int reference = 0;  // in Lua's registry
    Flags flags;
  };
  std::map<std::string, LoadedScript> scripts_;  // by SHA-1
};

template <class T>
T* RedisModel::find(const std::string& key) {
  const auto at = data_.keys.find(key);
  if (at == data_.keys.end()) return nullptr;
  if (!replaying_ && expired(key)) return nullptr;
  auto* value = std::get_if<T>(&at->second);
  if (value == nullptr) throw Refusal{kWrongType};
  return value;
}

template <class T>
T& RedisModel::make(const std::string& key) {
  if (auto* value = find<T>(key)) return *value;
  data_.expires_ms.erase(key);
  return std::get<T>(data_.keys[key] = T());
}

}  // namespace foretime::simulation
