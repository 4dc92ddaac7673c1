#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "jobs/redis/store_record.h"

namespace foretime::jobs {

/// A setting of an embedded redis-server.
struct ServerSetting {
  const char* name;
  const char* value;
};

/// All settings of an embedded redis-server. They are passed as arguments rather than in a file, and the guardian asks
/// the server for the value of each one after the start.
inline constexpr std::array<ServerSetting, 13> kServerSettings = {{
    {"port", "0"},
    {"bind", "127.0.0.1"},
    {"protected-mode", "yes"},
    {"unixsocket", "redis.sock"},
    {"unixsocketperm", "700"},
    {"daemonize", "no"},
    {"set-proc-title", "no"},
    {"logfile", "redis.log"},
    {"save", ""},
    {"appendonly", "yes"},
    {"appendfsync", "always"},
    {"maxmemory-policy", "noeviction"},
    // A job's metrics and parameters are longer than the usual 64 bytes; its record would take twice the memory.
    {"hash-max-listpack-value", "1024"},
}};

/// Everything that the forked guardian of an embedded Redis needs, made before the fork: after it only
/// async-signal-safe functions are called, since another thread may have held a lock. Descriptors are above 2 and close
/// on exec.
struct GuardianPlan {
  const char* server_path = nullptr;   // redis-server, an absolute path
  char* const* arguments = nullptr;    // arguments of redis-server; null ends them
  char* const* environment = nullptr;  // environment of redis-server; null ends it
  int64_t linger_ms = 0;               // time without a user after which the server is stopped
  int folder = -1;                     // working folder of the server and of the guardian
  int users_lock = -1;                 // users.lock, opened for the guardian alone, not locked
  int guardian_lock = -1;  // guardian.lock, locked by the starter; the guardian empties the file if it gives up
  int owner_file = -1;     // the file `owner` (embedded_owner.h)
  int server_lock = -1;    // server.lock, not locked; the server inherits the descriptor
  int dev_null = -1;
  char* command_line = nullptr;  // memory of the starter's command line, which the guardian overwrites with `title`
  size_t command_line_size = 0;  // bytes of `command_line`
  const char* title = "";
  StoreRecord store_record{};  // state of the append-only file when the starter checked it
};

/// Forks the guardian in a new session and exits, so that the starter need not wait for the guardian. Must be called in
/// the child of a fork, with all signals blocked. The exit status is 0 if the guardian was forked, otherwise errno.
[[noreturn]] void leave_guardian(const GuardianPlan& plan);

/// The interval at which a guardian touches the file `owner`.
constexpr int64_t kOwnerBeatMs = 5000;

/// Holds the result of ask_redis().
enum class Answer {
  none,           // no connection, no answer in time, or an error in answer to CONFIG GET
  loading,        // Redis loads its data
  ready,          // Redis answers; a busy Redis is not asked for its settings
  wrong_settings  // a setting has another value than expected
};
/// Sends PING to the Redis at a socket, and asks for each setting of `expected`. On wrong_settings, sets `wrong`,
/// unless null, to the first one with another value. Waits at most `timeout_ms` in all. Returns none for a path of
/// 108 bytes or more. Async-signal-safe.
Answer ask_redis(const char* socket_path, int timeout_ms, std::span<const ServerSetting> expected = {},
                 const ServerSetting** wrong = nullptr);

}  // namespace foretime::jobs
