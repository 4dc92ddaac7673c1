#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace foretime::cli {

/// A part of a trace, in microseconds since its first span; `to` empty: to its end.
struct TraceWindow {
  int64_t from = 0;
  std::optional<int64_t> to{};
};

/// What the trace.json `name` below the folder `root` (base/foreign_file.h) (`--profile`: Chrome's trace events) shows
/// in a window: {"duration", "from", "to", "rows":
/// [{"rank", "thread"}], "names", "spans": [[row, name, begin, length], …] by place in "rows" and "names", "short"}.
/// Spans too short to be seen at that scale are left out and counted by "short". Throws HistoryError for a file that
/// is no trace, and FileError, also for more than 512 MiB.
nlohmann::json trace_of(const std::filesystem::path& root, const std::filesystem::path& name,
                        const TraceWindow& window);

}  // namespace foretime::cli
