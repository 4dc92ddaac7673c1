#pragma once

#include <string>
#include <string_view>

namespace foretime::cli {

/// Returns the text of `foretime --version`, in three lines: version, `commit`, and the libraries and compiler.
std::string build_text(std::string_view commit);
/// Returns the version alone: 0.2.0.
std::string version_text();

/// The commit of this build, its day, and whether the sources had changes: "46cbfb8b 2026-11-24, with changes";
/// "unknown" outside of a checkout. Only dispatch.cpp is linked with it, so that a new commit of the same sources
/// compiles and links nothing else.
extern const char* const kCommit;

}  // namespace foretime::cli
