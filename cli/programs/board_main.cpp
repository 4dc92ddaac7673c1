#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pthread.h>

#include "base/error.h"
#include "base/files.h"
#include "cli/board/board_service.h"
#include "cli/jobs/board.h"
#include "cli/light/programs.h"
#include "jobs/error.h"
#include "server/http/http.h"
#include "server/http/listener.h"

/// Runs `foretime board`: a separate program, so that others need not load an HTTP server.
namespace {

using namespace foretime;

/// Null where nobody has a queue and none is asked for.
std::unique_ptr<cli::QueueApi> open_queue(const cli::BoardArguments& options) {
  const bool named = !options.queue.redis.empty() || std::getenv("FORETIME_REDIS") != nullptr;
  if (!named && !files().exists(std::filesystem::path(options.queue.runs) / ".redis")) return nullptr;
  return std::make_unique<cli::QueueApi>(options.queue, options.actions ? cli::Start::never : cli::Start::to_read);
}

/// 256 bits of the system's randomness.
std::string new_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 8; ++i) token += fmt::format("{:08x}", device());
  return token;
}

void run(const cli::BoardArguments& options) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  auto queue = open_queue(options);
  const bool has_queue = queue != nullptr;
  if (!has_queue && !files().is_folder(options.queue.runs))
    throw jobs::JobsError("{}: found no folder, expected one with run directories, or a queue (--redis, --runs)",
                          options.queue.runs);
  if (options.actions && !has_queue)
    throw jobs::JobsError("--actions: found no queue to change, expected one in {} or --redis URL", options.queue.runs);
  const bool tcp = options.socket.empty();
  const cli::BoardAccess access{.token = new_token(), .reading_needs_token = tcp, .actions = options.actions};
  cli::BoardService service(std::move(queue), options.queue.runs, access);
  std::vector<server::Listener> listeners;
  listeners.push_back(tcp ? server::Listener::on_loopback(options.address, options.port)
                          : server::Listener::on_path(options.socket));
  server::ServeLimits limits;
  limits.max_body = 4096;       // also accepts small bodies of forbidden POSTs, so that they get that error
  limits.max_concurrent = 256;  // connections: browsers keep several
  limits.drain = std::chrono::milliseconds(3000);
  server::HttpServer server(std::move(listeners), service, limits);
  const auto& name = server.listeners().front().name();
  const auto fragment = tcp || options.actions ? "/#token=" + access.token : "";
  fmt::print("the board is at {}{} ({}runs in {}{})\n", name, tcp ? fragment : "", has_queue ? "a queue, and " : "",
             options.queue.runs, options.actions ? "; pages may change jobs" : "");
  if (!tcp)
    fmt::print("for a browser: ssh -L 8600:{} HOST, then http://127.0.0.1:8600{}\n",
               std::filesystem::absolute(options.socket).string(), fragment);
  std::fflush(stdout);
  // The trials of the newest sweeps are read before anybody asks: of 100,000 that takes a second or more.
  std::atomic<bool> warm = !has_queue;
  std::thread warming([&] {
    server::HttpRequest request;
    request.method = "GET";
    request.path = "/api/queue";
    try {
      if (has_queue) service.answer(request);
    } catch (const std::exception&) {  // whoever asks will be told
    } catch (const server::HttpError&) {
    }
    warm = true;
  });
  int signal = 0;
  sigwait(&signals, &signal);
  service.drain();
  server.stop_accepting();
  const auto limit = std::chrono::steady_clock::now() + limits.drain;
  const timespec pause{.tv_sec = 0, .tv_nsec = 5'000'000};
  while (server.requests() > 0 && std::chrono::steady_clock::now() < limit) nanosleep(&pause, nullptr);
  // Whoever does not take its answer is not waited for, nor is a Redis that does not answer.
  if (server.requests() > 0 || !warm) std::_Exit(kSuccess);
  warming.join();
}

}  // namespace

int main(int argc, char** argv) {
  return cli::run_program(argc, argv, [](CLI::App& app) {
    cli::add_board_command(app, run);
    cli::add_report_command(app, cli::write_report);
  });
}
