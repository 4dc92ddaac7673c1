#include "cli/jobs/board.h"

#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/parsing/options.h"

namespace foretime::cli {

void add_board_command(CLI::App& app, std::function<void(const BoardArguments&)> run) {
  auto arguments = std::make_shared<BoardArguments>();
  auto* command = app.add_subcommand("board", "Show sweeps, jobs, agents and runs in a browser, on this machine");
  typed_option(*command, "folder", arguments->runs, "folder with run directories, or of the runs of jobs; as --runs",
               "DIR");
  shown_option(*command, "--port", arguments->port, "listen on this port of --address; 0: a free one",
               CLI::Range(0, 65535));
  command->add_option("--address", arguments->address, "a loopback address; others are refused")->capture_default_str();
  command->add_flag("--actions", arguments->actions,
                    "let those who have the token cancel, pause, resume and retry jobs and change priorities");
  typed_option(*command, "--socket", arguments->socket,
               "listen on a Unix socket instead, to which this user alone can connect; reading then needs no token",
               "PATH");
  add_queue_options(*command, arguments->queue);
  command->footer(
      "Open the address that it prints: it ends with the token that reading needs. "
      "Without --actions the board changes\n"
      "nothing, and a Redis user with read rights is enough. It needs no internet, and serves this machine only; from\n"
      "another one: ssh -L 8600:127.0.0.1:8600 HOST. SIGTERM and SIGINT end it (docs/how-to/board.md).\n"
      "Examples:\n"
      "  foretime board                               the queue and the runs in runs/\n"
      "  foretime board runs/experiment --port 8601   any folder with run directories");
  command->callback([arguments, run = std::move(run)] {
    if (!arguments->runs.empty()) arguments->queue.runs = arguments->runs;
    run(*arguments);
  });
}

void add_report_command(CLI::App& app, std::function<void(const ReportArguments&)> run) {
  auto arguments = std::make_shared<ReportArguments>();
  auto* command =
      app.add_subcommand("report", "Write one HTML file with the curves, tables and rankings of runs or a sweep");
  needed_option(*command, "target", arguments->target,
                "a run directory, a folder with several (an experiment), or the id of a sweep or job; "
                "the first digits are enough",
                "DIR|ID");
  command->add_option("-o,--output", arguments->output, "the file to write")->type_name("FILE")->capture_default_str();
  add_force_flag(*command, arguments->force);
  add_queue_options(*command, arguments->queue);
  command->footer(
      "The file holds all it needs and opens in any browser, without a server or the internet (docs/how-to/board.md).\n"
      "Examples:\n"
      "  foretime report runs/quickstart -o quickstart.html\n"
      "  foretime report 3fa9 -o sweep.html");
  command->callback([arguments, run = std::move(run)] { run(*arguments); });
}

}  // namespace foretime::cli
