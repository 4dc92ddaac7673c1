#pragma once

#include <cstdint>
#include <string>

#include "server/limits.h"

namespace foretime::server {

struct ServeArguments {
  std::string model, socket, address = "127.0.0.1";
  int64_t port = -1;    // -1: no TCP
  int64_t threads = 1;  // of one call
  int64_t max_body_mib = 32;
  int64_t batch_window_us = 1000;
  double request_seconds = 30, drain_seconds = 30;
  ServeLimits limits;
};

/// `foretime serve`: opens the bundle, listens, and answers until SIGTERM or SIGINT; SIGHUP opens the bundle again.
/// Throws ListenError, SettingsError where there is nowhere to listen, and the errors of bundles.
void serve(const ServeArguments& arguments);

}  // namespace foretime::server
