#pragma once

#include <span>
#include <string>
#include <vector>

namespace foretime {

/// Returns the names of the environment variables with addresses and credentials of Redis and of artifact stores.
std::span<const char* const> secret_variables();

/// Keeps other processes of the same user away from this process's credentials, from now on and in children until they
/// execute a program: memory and environment cannot be read in /proc, the process cannot be traced, and it leaves no
/// core file. Later calls do nothing. getenv still returns the values of secret_variables().
void protect_secrets();

/// Returns this process's environment as NAME=value, without secret_variables().
std::vector<std::string> environment_without_secrets();

}  // namespace foretime
