#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace foretime::cli {

/// Selects a part of a trace, in microseconds since the begin of its first span.
struct TraceWindow {
  int64_t from = 0;
  std::optional<int64_t> to{};  // empty: to the end of the trace
};

/// Returns the part `window` of the trace file `name` below the folder `root` (base/foreign_file.h), which --profile
/// has written: {"duration", "from", "to", "rows": [{"rank", "thread"}], "names", "spans": [[row, name, begin, length],
/// …], "short"}. Times are microseconds; row and name are indices in "rows" and "names". Spans shorter than 1/2000 of
/// the window, and all but the 6,000 longest, are left out and counted in "short". Throws HistoryError for a missing
/// file and one that is not a trace, and the errors of open_foreign, also for more than 512 MiB.
nlohmann::json trace_of(const std::filesystem::path& root, const std::filesystem::path& name,
                        const TraceWindow& window);

}  // namespace foretime::cli
