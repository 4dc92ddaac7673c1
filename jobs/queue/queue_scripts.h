#pragma once

#include <map>
#include <string>

namespace foretime::jobs {

/// A Lua script and its SHA-1, by which Redis identifies it. The text has the modules of jobs/queue/scripts/modules,
/// then the script. The build writes each text as a file NAME.lua in its folder jobs/scripts.
struct Script {
  std::string text, sha1;
};

/// Scripts by the names of their files without .lua.
using Scripts = std::map<std::string, Script>;

/// Returns a script with this text and its SHA-1.
Script script_of(std::string text);

/// Returns the scripts of the queue, which are compiled into the program.
const Scripts& queue_scripts();

}  // namespace foretime::jobs
