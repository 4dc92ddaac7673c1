// Stands for `foretime` under an agent. `train --quiet config.yaml` runs the script that data.train names, one
// instruction a line, and leaves a result as a training does, unless it has sent one or `nothing` is to be left;
// `evaluate`, `export` and `finetune` print their arguments, and the last two write what is asked for.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "configs/load.h"
#include "jobs/progress/channel.h"

namespace {

namespace fs = std::filesystem;
using foretime::jobs::ProgressMessage;
using Kind = ProgressMessage::Kind;

class Trial {
 public:
  explicit Trial(const std::string& config) : settings_(foretime::configs::load_settings(config)) {}

  int run() {
    std::ifstream script(settings_.data.train.at(0));
    for (std::string line; std::getline(script, line);) {
      std::istringstream words(line);
      std::string verb;
      words >> verb;
      const int code = obey(verb, words);
      if (code > 0) return code;
      if (code == 0) break;
    }
    if (!said_result_ && !leaves_nothing_ && first_rank()) leave_result();
    return 0;
  }

 private:
  int obey(const std::string& verb, std::istringstream& words) {
    std::string text;
    int64_t a = 0, b = 0, c = 0;
    if (verb == "nothing") leaves_nothing_ = true;
    if (verb == "connect" && first_rank()) sender_ = foretime::jobs::ProgressSender::from_environment();
    if (verb == "print") std::cout << words.rdbuf() << std::endl;
    if (verb == "bytes")
      std::cout << "a\xFF"
                << "b\rnext" << std::endl;
    if (verb == "many" && words >> a)
      for (int64_t i = 0; i < a; ++i) std::cout << "line " << i << "\n" << std::flush;
    if (verb == "env" && words >> text) {
      const char* value = std::getenv(text.c_str());
      std::cout << text << "=" << (value == nullptr ? "(none)" : value) << std::endl;
    }
    if (verb == "threads") std::cout << "threads=" << settings_.trainer.threads << std::endl;
    if (verb == "sleep" && words >> a) std::this_thread::sleep_for(std::chrono::milliseconds(a));
    if (verb == "await" && words >> text)
      while (!fs::exists(text)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (verb == "metrics" && words >> a >> b) {
      for (int64_t i = 0; i < a; ++i) {
        std::ofstream(fs::path(settings_.run.directory) / "metrics.jsonl", std::ios::app) << "{}\n";
        std::this_thread::sleep_for(std::chrono::milliseconds(b));
      }
    }
    if (verb == "progress" && words >> a >> b) tell(Kind::progress, a, b);
    if (verb == "scored" && words >> a) send({.step = 1, .scored = a});
    if (verb == "measure" && words >> a >> text)
      send({.step = a, .total_steps = 100, .values = {{"loss", std::stod(text)}}});
    if (verb == "evaluate" && words >> a >> b >> text) evaluate(a, b, std::stod(text));
    if (verb == "checkpoint" && words >> a) checkpoint(a);
    if (verb == "publish" && words >> text) publish(1, text);
    if (verb == "raw") raw(words);
    if (verb == "resume") resume();
    if (verb == "result" && words >> text) result(std::stod(text));
    if (verb == "once" && words >> text) return once(text, words);
    if (verb == "daemon" && words >> text) daemon(text);
    if (verb == "steps" && words >> a >> b >> c) return steps(a, b, c);
    if (verb == "unmount") {
      const fs::path root = settings_.data.root;
      fs::rename(root, root.string() + ".unmounted");
      fs::create_directory(root);
    }
    if (verb == "move") fs::rename(settings_.run.directory, settings_.run.directory + ".moved");
    if (verb == "deaf") std::signal(SIGTERM, SIG_IGN);
    if (verb == "hang") return hang();
    if (verb == "crash") {
      std::signal(SIGSEGV, SIG_DFL);  // AddressSanitizer's handler would exit instead
      std::raise(SIGSEGV);
    }
    if (verb == "exit" && words >> a) return static_cast<int>(a);
    return -1;
  }

  static bool first_rank() {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return rank == nullptr || std::strcmp(rank, "0") == 0;
  }
  void send(const ProgressMessage& message) {
    if (sender_) sender_->send(message);
  }
  void tell(Kind kind, int64_t step, int64_t total) {
    send({.kind = kind, .step = step, .total_steps = total, .loss = 1.0 / static_cast<double>(step + 1)});
  }
  void evaluate(int64_t step, int64_t iteration, double value) {
    value_ = value;
    const std::map<std::string, double> metrics = {{settings_.trainer.metric, value}};
    send({.kind = Kind::evaluation, .step = step, .iteration = iteration, .metrics = metrics});
  }
  void result(double value) {
    said_result_ = sender_ != nullptr;
    value_ = value;
    send({.kind = Kind::result, .metrics = {{settings_.trainer.metric, value}}});
  }
  /// As a training does, whether an agent hears it or not.
  void leave_result() {
    const fs::path run = settings_.run.directory;
    std::ofstream(run / "metrics.jsonl") << "{\"kind\":\"final\",\"step\":12,\"" << settings_.trainer.metric
                                         << "\":" << value_ << "}\n";
    fs::create_directories(run / "checkpoints" / "step-00000012");
    std::ofstream(run / "checkpoints" / "step-00000012" / "manifest.json") << "{}";
  }
  void publish(int64_t step, const std::string& path) { send({.kind = Kind::checkpoint, .step = step, .path = path}); }
  void checkpoint(int64_t step) {
    const auto folder = fs::path(settings_.run.directory) / "checkpoints" / ("step-" + std::to_string(step));
    fs::create_directories(folder);
    std::ofstream(folder / "manifest.json") << "{}";
    publish(step, folder.string());
  }
  void resume() {
    std::cout << "resume " << settings_.checkpoint.resume << std::endl;
    const auto name = fs::path(settings_.checkpoint.resume).filename().string();
    if (name.starts_with("step-")) first_ = std::stoll(name.substr(5));
  }
  /// The rest of the line at the first attempt only.
  int once(const std::string& file, std::istringstream& words) {
    const auto mark = fs::path(settings_.run.directory).parent_path() / file;
    if (fs::exists(mark)) return -1;
    std::ofstream(mark) << "x";
    std::string verb;
    words >> verb;
    return obey(verb, words);
  }
  int steps(int64_t total, int64_t every, int64_t milliseconds) {
    for (int64_t step = first_ + 1; step <= total; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      tell(Kind::progress, step, total);
      if (step % every == 0) {
        checkpoint(step);
        evaluate(step, step / every, static_cast<double>(step));
      }
      if (sender_ && sender_->stop_requested()) {
        checkpoint(step);
        std::ofstream(fs::path(settings_.run.directory) / "stopped") << "x";  // tells the other ranks
        return 75;
      }
      if (!sender_ && fs::exists(fs::path(settings_.run.directory) / "stopped")) return 75;
    }
    return -1;
  }
  static void daemon(const std::string& mark) {
    if (fork() == 0) {
      setsid();
      execl("/bin/sh", "sh", "-c", ("trap '' TERM; while :; do sleep 1000; done; : " + mark).c_str(), nullptr);
      _exit(1);
    }
  }
  static int hang() {
    for (;;) pause();
  }
  static void raw(std::istringstream& words) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, std::getenv("FORETIME_PROGRESS"), sizeof(address.sun_path) - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
    std::ostringstream text;
    text << words.rdbuf() << "\n" << std::string(100000, 'x') << "\n";
    if (write(socket, text.str().data(), text.str().size()) < 0) return;
    close(socket);
  }

  foretime::configs::Settings settings_;
  std::unique_ptr<foretime::jobs::ProgressSender> sender_;
  int64_t first_ = 0;
  double value_ = 1;
  bool said_result_ = false, leaves_nothing_ = false;
};

/// The output is the last argument; a learning rate above 1 is too large.
int finetune(const std::vector<std::string>& arguments) {
  std::ofstream(arguments.back()) << "bundle";
  if (const auto sender = foretime::jobs::ProgressSender::from_environment())
    sender->send({.kind = Kind::result, .step = 60, .metrics = {{"holdout/kendall_tau", 0.5}}});
  const auto rate = std::find(arguments.begin(), arguments.end(), "--learning-rate");
  return rate != arguments.end() && std::stod(*(rate + 1)) > 1 ? 6 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "train" && argc == 4) return Trial(argv[3]).run();
  for (int i = 1; i < argc; ++i) std::cerr << "argument " << argv[i] << std::endl;
  if (command == "evaluate") std::cout << "{\n \"metrics\": {\"test/kendall_tau\": 0.25}\n}" << std::endl;
  if (command == "export" && argc == 4) {
    fs::create_directories(argv[3]);
    std::ofstream(fs::path(argv[3]) / "manifest.json") << "{}";
  }
  if (command == "finetune") return finetune({argv + 2, argv + argc});
  return 0;
}
