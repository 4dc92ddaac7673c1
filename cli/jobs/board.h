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
  bool actions = false;  // whoever has the token that is printed may change jobs
};

struct ReportArguments {
  QueueOptions queue;
  std::string target, output = "report.html";
  bool force = false;  // replace a file of another kind
};

/// `foretime report`, which `run` does, as below.
void add_report_command(CLI::App& app, std::function<void(const ReportArguments&)> run);

/// `foretime board`, which `run` does: the program that has it, or by becoming that program.
void add_board_command(CLI::App& app, std::function<void(const BoardArguments&)> run);

}  // namespace foretime::cli
