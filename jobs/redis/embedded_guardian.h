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

/// All settings of an embedded redis-server. They are its arguments, so that no file that it fails to find can make it
/// open a port, and the guardian asks the server for each of them after its start.
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

/// Everything that the forked guardian of an embedded Redis needs, made before the fork: between fork and exec only
/// async-signal-safe functions are called, since other threads of the starter may have held any lock. All descriptors
/// are above 2 and close on exec.
struct GuardianPlan {
  const char* server_path = nullptr;  // redis-server, an absolute path
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int64_t linger_ms = 0;
  int folder = -1;         // working folder of the server and of the guardian
  int users_lock = -1;     // opened for the guardian alone, not locked
  int guardian_lock = -1;  // locked by the starter, who closes its copy after the fork; it holds a line, and is emptied
                           // when the guardian gives up
  int owner_file = -1;     // embedded_owner.h; the guardian adds its number, touches it and removes it
  int server_lock = -1;    // not locked; the server inherits it
  int dev_null = -1;
  char* command_line = nullptr;  // the starter's, in memory; the guardian replaces it by `title`
  size_t command_line_size = 0;
  const char* title = "";
  StoreRecord store_record{};  // the append-only file when the starter read it
};

/// Lives the life of the process between starter and guardian, which makes the guardian an orphan in a session of its
/// own, so that the starter need not wait for it. Called in the child of a fork, with all signals blocked. Its exit
/// status is 0 when the guardian was forked.
[[noreturn]] void leave_guardian(const GuardianPlan& plan);

/// The interval at which a guardian touches the owner file.
constexpr int64_t kOwnerBeatMs = 5000;

enum class Answer { none, loading, ready, wrong_settings };
/// Sends PING to the Redis at that socket (path below 108 bytes), and asks it for each setting of `expected`. Then
/// `wrong`, if given, is the first one that has another value. Async-signal-safe.
Answer ask_redis(const char* socket_path, int timeout_ms, std::span<const ServerSetting> expected = {},
                 const ServerSetting** wrong = nullptr);

}  // namespace foretime::jobs
