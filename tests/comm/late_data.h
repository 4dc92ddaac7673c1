#pragma once

#include <filesystem>
#include <string>

/// One rank of two, of which rank 1 begins a call of MPI after rank 0 has given it up: late_gather, late_pieces,
/// late_root, late_reader, late_sum, late_stages. The ranks exchange their events through `folder`. Prints what used
/// memory that had been freed. Returns the exit code.
int late_data(const std::string& how, const std::filesystem::path& folder);
