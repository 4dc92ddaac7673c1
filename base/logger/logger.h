#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <spdlog/spdlog.h>

namespace foretime {

/// Adds a line to the file of a logger that make_logger has made with a file, but not to the terminal.
void log_to_file(const spdlog::logger& log, const std::string& text);

/// Makes a logger that prints to the terminal (stderr) and, if `file` is not empty, to that file. `level` is the lowest
/// severity that is shown. Throws FileError, or StorageError if the storage failed.
std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& file, spdlog::level::level_enum level);

}  // namespace foretime
