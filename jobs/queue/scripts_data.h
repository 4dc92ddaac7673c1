#pragma once

#include <cstddef>

namespace foretime::jobs {

struct ScriptText {
  const char* name;
  const char* text;
};
/// Written by jobs/sources_queue.cmake from jobs/scripts/*.lua.
extern const ScriptText kScriptTexts[];
extern const size_t kScriptCount;

}  // namespace foretime::jobs
