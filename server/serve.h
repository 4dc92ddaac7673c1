#pragma once

#include <cstdint>
#include <string>

#include "server/http/limits.h"

namespace foretime::server {

/// Holds the arguments of `foretime serve`.
struct ServeArguments {
  std::string model;                  // path of the bundle
  std::string socket;                 // path of the Unix socket; "": none
  std::string address = "127.0.0.1";  // loopback address for TCP
  int64_t port = -1;                  // 0: any free port; -1: no TCP
  int64_t threads = 1;                // threads of one scoring call; 0: one for each core
  int64_t max_body_mib = 32;          // argument of --max-body; limits.max_body is set from it
  int64_t batch_window_us = 1000;     // argument of --batch-window-us; limits.batch_window is set from it
  double drain_seconds = 30;          // argument of --drain-seconds; limits.drain is set from it
  ServeLimits limits;
};

/// Runs `foretime serve` until SIGTERM or SIGINT. SIGHUP opens the bundle again or, if that fails, keeps the model.
/// Ends the process with kInternal if running requests are not answered within limits.drain or before a second signal.
/// Throws ListenError, SettingsError (no socket and no port, an address other than loopback), and errors of bundles.
void serve(const ServeArguments& arguments);

}  // namespace foretime::server
