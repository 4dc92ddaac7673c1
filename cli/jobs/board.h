#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/jobs/queue_access.h"

namespace foretime::cli {

/// Holds the arguments of `foretime board`.
struct BoardArguments {
  QueueOptions queue;
  std::string runs, socket, address = "127.0.0.1";
  int64_t port = 8600;
  bool actions = false;  // the printed token allows changes of jobs
};

/// Holds the arguments of `foretime report`.
struct ReportArguments {
  QueueOptions queue;
  std::string target, output = "report.html";
  bool force = false;  // replace a file of another kind
};

/// Adds `foretime report`; `run` implements it or executes the program that has it.
void add_report_command(CLI::App& app, std::function<void(const ReportArguments&)> run);

/// Adds `foretime board`; `run` implements it or executes the program that has it.
void add_board_command(CLI::App& app, std::function<void(const BoardArguments&)> run);

}  // namespace foretime::cli
