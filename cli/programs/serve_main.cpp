#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pthread.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/message.h"
#include "base/threads.h"
#include "cli/light/programs.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "server/http/http.h"
#include "server/http/limits.h"
#include "server/http/listener.h"
#include "server/service.h"

/// Runs `foretime serve`: a separate program, so that others need not load an HTTP server.
namespace {

using namespace foretime;

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
  server::ServeLimits limits;
};

sigset_t signals_of(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers) sigaddset(&signals, number);
  return signals;
}

/// Opens the bundle again, which a fine-tuning may have replaced. Where that fails the model stays.
void reload(const ServeArguments& arguments, const inference::Options& options, server::Service& service) {
  try {
    service.replace_model(inference::Model::open(arguments.model, options));
    fmt::print("{}: opened again\n", arguments.model);
    std::fflush(stdout);
  } catch (const std::exception& error) {
    print_message("foretime: {}; keeps the current model\n", error.what());
  }
}

std::vector<server::Listener> listeners_of(const ServeArguments& arguments) {
  std::vector<server::Listener> listeners;
  if (!arguments.socket.empty()) listeners.push_back(server::Listener::on_path(arguments.socket));
  if (arguments.port >= 0) listeners.push_back(server::Listener::on_loopback(arguments.address, arguments.port));
  if (listeners.empty())
    throw configs::SettingsError("serve: found neither --socket nor --port, expected at least one");
  return listeners;
}

/// Runs `foretime serve` until SIGTERM or SIGINT. SIGHUP opens the bundle again or, if that fails, keeps the model.
/// Ends the process with kInternal if running requests are not answered within limits.drain or before a second signal.
/// Throws ListenError, SettingsError (no socket and no port, an address other than loopback), and errors of bundles.
void serve(const ServeArguments& arguments) {
  // Blocked in this thread and all that it starts: only the loop below takes them.
  const auto signals = signals_of({SIGTERM, SIGINT, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const inference::Options options{.threads = static_cast<int32_t>(threads_to_use(arguments.threads))};
  auto listeners = listeners_of(arguments);
  server::Service service(inference::Model::open(arguments.model, options), arguments.limits);
  server::HttpServer http(std::move(listeners), service, arguments.limits);
  for (const auto& listener : http.listeners()) fmt::print("{}: listening on {}\n", arguments.model, listener.name());
  std::fflush(stdout);

  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) reload(arguments, options, service);
  service.drain();
  http.stop_accepting();
  const auto limit = std::chrono::steady_clock::now() + arguments.limits.drain;
  const timespec pause{.tv_sec = 0, .tv_nsec = 5'000'000};
  const auto ends = signals_of({SIGTERM, SIGINT});
  while (http.requests() > 0) {
    if (std::chrono::steady_clock::now() < limit && sigtimedwait(&ends, nullptr, &pause) < 0) continue;
    print_message("foretime: {} requests were not answered before the end\n", http.requests());
    std::_Exit(kInternal);  // threads that score cannot be stopped
  }
}

void add_serve_command(CLI::App& app) {
  auto arguments = std::make_shared<ServeArguments>();
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
    serve(*arguments);
  });
}

}  // namespace

int main(int argc, char** argv) { return cli::run_program(argc, argv, add_serve_command); }
