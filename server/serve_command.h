#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "server/limits.h"

namespace foretime::server {

struct ServeArguments {
  std::string model, socket, address = "127.0.0.1";
  int64_t port = -1;    // -1: no TCP
  int64_t threads = 1;  // of one call
  int64_t max_body_mib = 32;
  int64_t batch_window_us = 1000;
  ServeLimits limits;
};
using Server = std::function<void(const ServeArguments&)>;

/// The options of `foretime serve`; `serve` does it.
void add_serve_command(CLI::App& app, const Server& serve);

}  // namespace foretime::server
