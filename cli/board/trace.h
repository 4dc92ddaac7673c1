#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace foretime::cli {

/// Selects a part of a trace, in microseconds since its first span; an empty `to` means its end.
struct TraceWindow {
  int64_t from = 0;
  std::optional<int64_t> to{};
};

/// Returns the visible part of the trace.json `name` below the folder `root` (base/foreign_file.h) (`--profile`:
/// Chrome's trace events): {"duration", "from", "to", "rows": [{"rank", "thread"}], "names", "spans": [[row, name,
/// begin, length], …] by index in "rows" and "names", "short"}. Spans too short to be visible at this scale are skipped
/// and counted in "short". Throws HistoryError for a file that is not a trace, and FileError, also for more than 512
/// MiB.
nlohmann::json trace_of(const std::filesystem::path& root, const std::filesystem::path& name,
                        const TraceWindow& window);

}  // namespace foretime::cli
