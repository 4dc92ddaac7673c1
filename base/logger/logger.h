#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <spdlog/spdlog.h>

namespace foretime {

/// Appends `text` to the log file, not to the terminal, at any level. Does nothing without a file or if writing fails.
void log_to_file(const spdlog::logger& log, const std::string& text);

/// Makes a logger that prints to standard error and appends to `file`, unless that is empty. `level` is the lowest
/// severity that is logged. Throws FileError, also as StorageError, or as ForeignFileError for a FIFO or folder.
std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& file, spdlog::level::level_enum level);

}  // namespace foretime
