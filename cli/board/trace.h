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

/// What a trace.json (`--profile`: Chrome's trace events) shows in a window: {"duration", "from", "to", "rows":
/// [{"rank", "thread"}], "names", "spans": [[row, name, begin, length], …] by place in "rows" and "names", "short"}.
/// Spans too short to be seen at that scale are left out and counted by "short". Throws HistoryError for a file that
/// is no trace, or larger than 512 MiB; FileError.
nlohmann::json trace_of(const std::filesystem::path& file, const TraceWindow& window);

}  // namespace foretime::cli
