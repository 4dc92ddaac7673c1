#pragma once

#include <map>
#include <string>

namespace foretime::jobs {

/// A Lua script as Redis runs it, with the SHA-1 by which Redis knows it. The build has each as a file,
/// NAME.lua in jobs/scripts in its folder: the modules of jobs/queue/scripts/modules, then the script itself.
struct Script {
  std::string text, sha1;
};

/// Scripts by the names of their files without .lua.
using Scripts = std::map<std::string, Script>;

/// Returns the script of this text.
Script script_of(std::string text);

/// Returns the scripts of the queue; they are part of the program.
const Scripts& queue_scripts();

}  // namespace foretime::jobs
