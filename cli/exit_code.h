#pragma once

#include <exception>

namespace foretime::cli {

/// The program's exit code for an exception: as coordinator::exit_code_of says, and for the job system 4 where Redis
/// cannot be reached or refuses, 2 for sweep files, ids and options that are wrong.
int exit_code_of(const std::exception& error);

}  // namespace foretime::cli
