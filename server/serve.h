#pragma once

#include <cstdint>
#include <string>

#include "server/http/limits.h"

namespace foretime::server {

/// Holds the arguments of `foretime serve`.
struct ServeArguments {
  std::string model, socket, address = "127.0.0.1";
  int64_t port = -1;    // -1: no TCP
  int64_t threads = 1;  // threads per scoring call
  int64_t max_body_mib = 32;
  int64_t batch_window_us = 1000;
  double drain_seconds = 30;
  ServeLimits limits;
};

/// Runs `foretime serve`: opens the bundle, listens, and answers until SIGTERM or SIGINT; SIGHUP opens the bundle
/// again. Throws ListenError, SettingsError if no socket is given, and the errors of bundles.
void serve(const ServeArguments& arguments);

}  // namespace foretime::server
