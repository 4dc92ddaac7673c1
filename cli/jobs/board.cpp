#include "cli/jobs/board.h"

#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/parsing/options.h"

namespace foretime::cli {

void add_board_command(CLI::App& app, std::function<void(const BoardArguments&)> run) {
  auto arguments = std::make_shared<BoardArguments>();
  auto* command = app.add_subcommand("board", "Show sweeps, jobs, agents and runs in a browser, on this machine");
  typed_option(*command, "runs", arguments->runs, "folder with run directories, or of the runs of jobs; as --runs",
               "DIR");
  shown_option(*command, "--port", arguments->port, "listen on this port of --address; 0: a free one",
               CLI::Range(0, 65535));
  command->add_option("--address", arguments->address, "a loopback address; others are refused")->capture_default_str();
  typed_option(*command, "--socket", arguments->socket, "listen on a Unix socket instead, for this user alone", "PATH");
  add_queue_options(*command, arguments->queue);
  command->footer(
      "It changes nothing: a Redis user with read rights is enough. It needs no internet, and serves this machine\n"
      "only; from another one: ssh -L 8600:127.0.0.1:8600 HOST. SIGTERM and SIGINT end it (docs/how-to/board.md).\n"
      "Examples:\n"
      "  foretime board                               the queue and the runs in runs/\n"
      "  foretime board runs/experiment --port 8601   any folder with run directories");
  command->callback([arguments, run = std::move(run)] {
    if (!arguments->runs.empty()) arguments->queue.runs = arguments->runs;
    run(*arguments);
  });
}

}  // namespace foretime::cli
