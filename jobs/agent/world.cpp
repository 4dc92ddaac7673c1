#include "jobs/agent/world.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/process.h"

namespace foretime::jobs {
namespace {

constexpr size_t kReadAtOnce = 1 << 20;  // then the other jobs have their turn

class SupervisedCommand final : public RunningCommand {
 public:
  SupervisedCommand(SupervisedProcess::Options options, const std::filesystem::path& folder)
      : token_(options.listen.empty() ? "" : real_world().random_hex(32)),
        channel_(folder, options.listen.empty() ? ListenAddress() : parse_listen_address(options.listen), token_),
        process_(with_channel(std::move(options))) {
    streams_ = {process_.output(), process_.standard_output()};
  }

  void add_descriptors(std::vector<pollfd>& descriptors) const override {
    descriptors.push_back({process_.status_descriptor(), POLLIN, 0});
    for (const int stream : streams_)
      if (stream >= 0) descriptors.push_back({stream, POLLIN, 0});
    channel_.add_descriptors(descriptors);
  }
  std::optional<ExitStatus> poll_exit() override { return process_.poll_exit(); }
  void read_output(bool all, const Sink& output, const Sink& printed) override {
    read_from(streams_[0], all, output);
    read_from(streams_[1], all, printed);
  }
  void receive(const std::function<void(const ProgressMessage&)>& message,
               const std::function<void(const std::string&)>& bad) override {
    channel_.receive(message, bad);
  }
  bool connected() const override { return channel_.connected(); }
  void request_stop(const std::string& reason) override { channel_.send_stop(reason); }
  void terminate() override { process_.terminate(); }
  void kill() override { process_.kill(); }

 private:
  SupervisedProcess::Options with_channel(SupervisedProcess::Options options) const {
    // Launchers name these variables: they are always there.
    const auto or_none = [](const std::string& text) { return text.empty() ? "none" : text; };
    options.environment["FORETIME_PROGRESS"] = channel_.path();
    options.environment["FORETIME_PROGRESS_TCP"] = or_none(channel_.tcp_address());
    options.environment["FORETIME_PROGRESS_TOKEN"] = or_none(token_);
    return options;
  }

  /// `stream` becomes -1 at its end.
  static void read_from(int& stream, bool all, const Sink& sink) {
    std::array<char, 65536> buffer;
    for (size_t total = 0; stream >= 0 && (all || total < kReadAtOnce);) {
      const auto got = TEMP_FAILURE_RETRY(read(stream, buffer.data(), buffer.size()));
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) {
        stream = -1;
        return;
      }
      total += got;
      sink(std::string_view(buffer.data(), got));
    }
  }

  std::string token_;
  ProgressReceiver channel_;
  SupervisedProcess process_;
  std::array<int, 2> streams_{-1, -1};
};

class ThreadBeside final : public Background {
 public:
  explicit ThreadBeside(std::function<double()> step)
      : shared_(std::make_shared<Shared>(std::move(step))), thread_([shared = shared_] { shared->run(); }) {}
  ~ThreadBeside() override {
    std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->wake.notify_all();
    const auto over = [this] { return shared_->over; };
    if (patience_ < kNever && !shared_->ended.wait_for(lock, std::chrono::duration<double>(patience_), over)) {
      thread_.detach();
      return;
    }
    lock.unlock();
    thread_.join();
  }
  void wake() override {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->due = true;
    }
    shared_->wake.notify_all();
  }
  void wait_at_most(double seconds) override { patience_ = seconds; }

 private:
  /// Holds the data of the thread.
  struct Shared {
    explicit Shared(std::function<double()> call) : step(std::move(call)) {}
    void run() {
      std::unique_lock lock(mutex);
      while (!stop) {
        due = false;
        lock.unlock();
        const auto pause = std::chrono::duration<double>(step());
        lock.lock();
        wake.wait_for(lock, pause, [this] { return stop || due; });
      }
      over = true;
      ended.notify_all();
    }
    std::function<double()> step;
    std::mutex mutex;
    std::condition_variable wake, ended;
    bool stop = false, due = false, over = false;
  };

  std::shared_ptr<Shared> shared_;
  double patience_ = kNever;
  std::thread thread_;  // last: it uses all of the above
};

class PollWaiter final : public Waiter {
 public:
  void wait(std::vector<pollfd>& descriptors, double seconds) override {
    descriptors.push_back({event_.get(), POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), std::ceil(seconds * 1e3));
    uint64_t count = 0;
    if (descriptors.back().revents != 0) static_cast<void>(!read(event_.get(), &count, sizeof(count)));
    descriptors.pop_back();
  }
  void wake() override {
    const uint64_t one = 1;
    static_cast<void>(!write(event_.get(), &one, sizeof(one)));
  }

 private:
  Descriptor event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

class RealWorld final : public World {
 public:
  double steady_seconds() override { return foretime::steady_seconds(); }
  uint64_t random_bits() override {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }
  std::unique_ptr<RunningCommand> start(SupervisedProcess::Options command,
                                        const std::filesystem::path& folder) override {
    return std::make_unique<SupervisedCommand>(std::move(command), folder);
  }
  std::unique_ptr<Background> run_beside(std::function<double()> step) override {
    return std::make_unique<ThreadBeside>(std::move(step));
  }
  std::unique_ptr<Waiter> make_waiter() override { return std::make_unique<PollWaiter>(); }
};

}  // namespace

std::string World::random_hex(size_t digits) {
  std::string text;
  uint64_t bits = 0;
  for (size_t i = 0; i < digits; ++i, bits >>= 4) {
    if (i % 16 == 0) bits = random_bits();
    text += "0123456789abcdef"[bits % 16];
  }
  return text;
}

World& real_world() {
  static RealWorld world;
  return world;
}

}  // namespace foretime::jobs
