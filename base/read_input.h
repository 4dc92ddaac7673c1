#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace foretime {

/// All of an input file. Throws StorageError where the storage fails, and DataError for whatever is wrong with the file
/// itself: there is none, it is a folder, it has more than `most` bytes.
std::string read_input(const std::filesystem::path& file, uint64_t most = UINT64_MAX);

/// The first bytes of a file, at most `bytes`, to see what it is. Fewer where it is shorter, none where it cannot be
/// opened; whoever reads it says why. Throws StorageError where the storage fails.
std::string start_of(const std::filesystem::path& file, size_t bytes);

}  // namespace foretime
