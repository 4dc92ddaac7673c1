#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace foretime {

/// Returns the bytes of an input file. Throws StorageError if the storage fails, and DataError for any other reason: a
/// missing file, a folder, a withheld permission, or a file of more than `most` bytes.
std::string read_input(const std::filesystem::path& file, uint64_t most = UINT64_MAX);

/// Returns the first `bytes` bytes of a file, or fewer if it is shorter, to recognise its kind. Returns "" if the file
/// cannot be opened or read, which a later reader reports. Throws StorageError if the storage fails.
std::string first_bytes(const std::filesystem::path& file, size_t bytes);

/// Returns the text of a file in /proc or /sys, without white space around it; "" if the file cannot be read.
std::string kernel_text(const std::filesystem::path& file);

}  // namespace foretime
