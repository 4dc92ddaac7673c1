#include "base/process_secrets.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include <sys/prctl.h>
#include <unistd.h>

namespace foretime {
namespace {

constexpr const char* kSecretVariables[] = {
    "FORETIME_REDIS",    "FORETIME_REDIS_USER",   "FORETIME_REDIS_PASSWORD", "FORETIME_REDIS_PASSWORD_FILE",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};

/// Moves the value to the heap. /proc/PID/environ shows the memory that the kernel filled before main.
void move_value(const char* name) {
  char* value = std::getenv(name);
  if (value == nullptr) return;
  const std::string copy = value;
  if (::setenv(name, copy.c_str(), /*overwrite=*/1) == 0 && std::getenv(name) != value)
    ::explicit_bzero(value, copy.size());
}

}  // namespace

std::span<const char* const> secret_variables() { return kSecretVariables; }

void protect_secrets() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::prctl(PR_SET_DUMPABLE, 0);
    for (const char* name : kSecretVariables) move_value(name);
  });
}

std::vector<std::string> environment_without_secrets() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto name = text.substr(0, text.find('='));
    bool is_secret = false;
    for (const char* secret : kSecretVariables) is_secret = is_secret || name == secret;
    if (!is_secret) result.emplace_back(text);
  }
  return result;
}

}  // namespace foretime
