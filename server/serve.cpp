#include "server/serve.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <initializer_list>

#include <fmt/format.h>
#include <pthread.h>

#include "base/error.h"
#include "base/message.h"
#include "base/threads.h"
#include "configs/load.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "server/service.h"

namespace foretime::server {
namespace {

sigset_t signals_of(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers) sigaddset(&signals, number);
  return signals;
}

/// Opens the bundle again, which a fine-tuning may have replaced. Where that fails the model stays.
void reload(const ServeArguments& arguments, const inference::Options& options, Service& service) {
  try {
    service.replace_model(inference::Model::open(arguments.model, options));
    fmt::print("{}: opened again\n", arguments.model);
    std::fflush(stdout);
  } catch (const std::exception& error) {
    print_message("foretime: {}; keeps the current model\n", error.what());
  }
}

std::vector<Listener> listen(const ServeArguments& arguments) {
  std::vector<Listener> listeners;
  if (!arguments.socket.empty()) listeners.push_back(Listener::on_path(arguments.socket));
  if (arguments.port >= 0) listeners.push_back(Listener::on_loopback(arguments.address, arguments.port));
  if (listeners.empty())
    throw configs::SettingsError("serve: found neither --socket nor --port, expected at least one");
  return listeners;
}

}  // namespace

void serve(const ServeArguments& arguments) {
  // Blocked in this thread and all that it starts: only the loop below takes them.
  const auto signals = signals_of({SIGTERM, SIGINT, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const inference::Options options{.threads = static_cast<int32_t>(threads_to_use(arguments.threads))};
  auto listeners = listen(arguments);
  Service service(inference::Model::open(arguments.model, options), arguments.limits);
  HttpServer server(std::move(listeners), service, arguments.limits);
  for (const auto& listener : server.listeners()) fmt::print("{}: listening on {}\n", arguments.model, listener.name());
  std::fflush(stdout);

  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) reload(arguments, options, service);
  service.drain();
  server.stop_accepting();
  const auto limit = std::chrono::steady_clock::now() + arguments.limits.drain;
  const timespec pause{.tv_sec = 0, .tv_nsec = 5'000'000};
  const auto ends = signals_of({SIGTERM, SIGINT});
  while (server.requests() > 0) {
    if (std::chrono::steady_clock::now() < limit && sigtimedwait(&ends, nullptr, &pause) < 0) continue;
    print_message("foretime: {} requests were not answered before the end\n", server.requests());
    std::_Exit(kInternal);  // threads that score cannot be stopped
  }
}

}  // namespace foretime::server
