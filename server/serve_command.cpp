#include "server/serve_command.h"

#include <memory>

namespace foretime::server {

void add_serve_command(CLI::App& app, const Server& serve) {
  auto arguments = std::make_shared<ServeArguments>();
  auto& limits = arguments->limits;
  auto* command = app.add_subcommand("serve", "Score for other programs, over HTTP on this machine");
  command->add_option("model", arguments->model, "a bundle (foretime export)")->required()->type_name("MODEL");
  command->add_option("--socket", arguments->socket, "listen on a Unix socket, for this user alone")->type_name("PATH");
  command->add_option("--port", arguments->port, "listen on this port of --address, for all users; 0: a free one")
      ->check(CLI::Range(0, 65535));
  command->add_option("--address", arguments->address, "a loopback address; others are refused")->capture_default_str();
  command->add_option("--threads", arguments->threads, "threads of one call that scores; 0: one a core")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command->add_option("--max-concurrent", limits.max_concurrent, "calls that score at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--max-queue", limits.max_queue, "requests that wait for them; more are refused")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command
      ->add_option("--batch-window-us", arguments->batch_window_us,
                   "microseconds that a request waits for others of its graph or workload, to be scored in one call")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  command->add_option("--max-body", arguments->max_body_mib, "MiB of a request's body")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--max-candidates", limits.max_candidates, "candidates of a request")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--max-graphs", limits.max_graphs, "graphs, and workloads, that are kept")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--max-nodes", limits.max_nodes, "nodes of a graph; all that are kept have four times as many")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command->footer(
      "SIGTERM and SIGINT end it with 0, once requests that it has taken are answered; SIGHUP opens the bundle\n"
      "again (docs/how-to/serve.md).\n"
      "Examples:\n"
      "  foretime serve model.foretime --socket /tmp/foretime.sock\n"
      "  foretime serve model.foretime --port 8080 --threads 0\n"
      "  curl --unix-socket /tmp/foretime.sock http://localhost/v1/model");
  command->callback([arguments, serve] {
    arguments->limits.max_body = arguments->max_body_mib << 20;
    arguments->limits.batch_window = std::chrono::microseconds(arguments->batch_window_us);
    serve(*arguments);
  });
}

}  // namespace foretime::server
