#pragma once

#include <span>
#include <string>
#include <vector>

namespace foretime {

/// Returns the names of the environment variables that hold credentials of Redis and of artifact stores.
std::span<const char* const> secret_variables();

/// Keeps other processes of the same user away from this one's credentials, from now on and in children until they
/// execute a program: its memory and environment cannot be read in /proc, it cannot be traced, and it leaves no core
/// file. The values of secret_variables() are removed from the memory that /proc shows, and getenv still returns them.
void protect_secrets();

/// Returns this process's environment as NAME=value, without secret_variables().
std::vector<std::string> environment_without_secrets();

}  // namespace foretime
