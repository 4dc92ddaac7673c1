#pragma once

#include <map>
#include <string>

namespace foretime::jobs {

/// Where the scripts take the time from. A property of the program, never of what Redis holds.
enum class QueueClock {
  redis,    // TIME
  test_key  // {prefix}:test_clock, milliseconds, which a test sets
};

/// One Lua script of jobs/scripts as it is sent: the clock, common.lua, then the script itself.
struct Script {
  std::string text, sha1;
};

/// All scripts by the name of their file without .lua; the texts are part of the program.
std::map<std::string, Script> load_scripts(QueueClock clock);

}  // namespace foretime::jobs
