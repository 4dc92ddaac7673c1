#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/jobs/queue_access.h"

namespace foretime::cli {

/// Holds the arguments of `foretime board`.
struct BoardArguments {
  QueueOptions queue;
  std::string runs, socket, address = "127.0.0.1";  // runs: folder with run directories; socket: Unix socket, "": TCP
  int64_t port = 8600;                              // 0: any free port
  bool actions = false;                             // true: the printed token allows changes of jobs
};

/// Holds the arguments of `foretime report`.
struct ReportArguments {
  QueueOptions queue;
  std::string target, output = "report.html";  // target: folder of runs, or id of a sweep or job
  bool force = false;                          // true: the output may replace a file of another kind
};

/// Adds `foretime report`. `run` implements the command, or executes the program that does.
void add_report_command(CLI::App& app, std::function<void(const ReportArguments&)> run);

/// Adds `foretime board`. `run` implements the command, or executes the program that does.
void add_board_command(CLI::App& app, std::function<void(const BoardArguments&)> run);

}  // namespace foretime::cli
