#pragma once

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

/// Where tests find data: samples/ always; the larger public data sets where FORETIME_DATA or ../shared/data names
/// them.
namespace foretime::testing {

inline std::filesystem::path source_dir() { return FORETIME_SOURCE_DIR; }
inline std::filesystem::path samples_dir() { return source_dir() / "samples"; }

/// The folder with tpugraphs/, tenset/ and tir/, or an empty path.
inline std::filesystem::path data_dir() {
  if (const char* named = std::getenv("FORETIME_DATA")) return named;
  const auto beside = source_dir().parent_path() / "shared" / "data";
  return std::filesystem::is_directory(beside) ? beside : std::filesystem::path();
}

}  // namespace foretime::testing

/// Ends the test as skipped, saying why, where the public data sets are not there.
#define FORETIME_NEEDS_DATA()                  \
  if (::foretime::testing::data_dir().empty()) \
  GTEST_SKIP() << "needs the public data sets: FORETIME_DATA names their folder (tpugraphs/, tenset/, tir/)"
