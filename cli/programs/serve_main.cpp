#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>

#include "base/duration.h"
#include "cli/light/programs.h"
#include "cli/parsing/options.h"
#include "server/serve.h"

/// Runs `foretime serve`: a separate program, so that others need not load an HTTP server.
namespace {

using namespace foretime;

void add_serve_command(CLI::App& app) {
  auto arguments = std::make_shared<server::ServeArguments>();
  auto& limits = arguments->limits;
  auto* command = app.add_subcommand("serve", cli::description_of("serve"));
  cli::needed_option(*command, "model", arguments->model, "a bundle (foretime export)", "MODEL");
  cli::typed_option(*command, "--socket", arguments->socket, "listen on a Unix socket, for this user alone", "PATH");
  cli::checked_option(*command, "--port", arguments->port,
                      "listen on this port of --address, for all users; 0: a free one", CLI::Range(0, 65535));
  command->add_option("--address", arguments->address, "a loopback address; others are refused")->capture_default_str();
  cli::shown_option(*command, "--threads", arguments->threads, "threads of one call that scores; 0: one a core",
                    CLI::Range(0, 256));
  cli::shown_option(*command, "--max-concurrent", limits.max_concurrent, "calls that score at once",
                    CLI::Range(1, 256));
  cli::shown_option(*command, "--max-queue", limits.max_queue, "requests that wait for them; more are refused",
                    CLI::Range(0, 4096));
  cli::shown_option(*command, "--batch-window-us", arguments->batch_window_us,
                    "microseconds that a request waits for others of its graph or workload, to be scored in one call",
                    CLI::Range(0, 10'000'000));
  cli::shown_option(*command, "--max-body", arguments->max_body_mib, "MiB of a request's body", CLI::Range(1, 1024));
  cli::shown_option(*command, "--max-candidates", limits.max_candidates, "candidates of a request",
                    CLI::Range(1, 10'000'000));
  cli::shown_option(*command, "--max-graphs", limits.max_graphs, "graphs, and workloads, that are kept",
                    CLI::Range(1, 1'000'000));
  cli::shown_option(*command, "--max-nodes", limits.max_nodes,
                    "nodes of a graph; all that are kept have four times as many", CLI::Range(1, 100'000'000));
  cli::shown_option(*command, "--idle-seconds", limits.idle_seconds,
                    "seconds after which a connection that moves no byte is closed", CLI::Range(1, 3600));
  cli::shown_option(*command, "--drain-seconds", arguments->drain_seconds,
                    "seconds after SIGTERM for requests that are being answered", cli::number_range(0.1, 3600.0));
  command->footer(
      "SIGTERM and SIGINT end it with 0, once requests that it has taken are answered; SIGHUP opens the bundle\n"
      "again (docs/how-to/serve.md).\n"
      "Examples:\n"
      "  foretime serve model.foretime --socket /tmp/foretime.sock\n"
      "  foretime serve model.foretime --port 8080 --threads 0\n"
      "  curl --unix-socket /tmp/foretime.sock http://localhost/v1/model");
  command->callback([arguments] {
    arguments->limits.max_body = arguments->max_body_mib << 20;
    arguments->limits.batch_window = std::chrono::microseconds(arguments->batch_window_us);
    arguments->limits.drain = milliseconds_of(arguments->drain_seconds);
    server::serve(*arguments);
  });
}

}  // namespace

int main(int argc, char** argv) { return cli::run_program(argc, argv, add_serve_command); }
