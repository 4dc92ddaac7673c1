#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/jobs/queue_access.h"

namespace foretime::cli {

struct BoardArguments {
  QueueOptions queue;
  std::string runs, socket, address = "127.0.0.1";
  int64_t port = 8600;
};

/// `foretime board`, which `run` does: the program that has it, or by becoming that program.
void add_board_command(CLI::App& app, std::function<void(const BoardArguments&)> run);

}  // namespace foretime::cli
