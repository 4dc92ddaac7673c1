#include "tests/simulation/cluster/simulated_world.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>

namespace foretime::simulation {
namespace {

class SimulatedCommand final : public jobs::RunningCommand {
 public:
  SimulatedCommand(Scheduler& scheduler, Trainings& trainings, std::shared_ptr<Trial> trial, double grace)
      : scheduler_(scheduler), trainings_(trainings), trial_(std::move(trial)), grace_(grace) {}
  ~SimulatedCommand() override {
    trial_->notify = nullptr;
    // The supervisor sees that its agent is gone, and kills what is left; not always at once.
    if (!trial_->exit) kill_after(scheduler_.integer(0, 3 * kSecond));
  }
  void add_descriptors(std::vector<pollfd>&) const override {}
  std::optional<jobs::ExitStatus> poll_exit() override { return trial_->exit; }
  void read_output(bool, const Sink& output, const Sink&) override {
    if (!trial_->output.empty()) output(std::exchange(trial_->output, ""));
  }
  void receive(const std::function<void(const jobs::ProgressMessage&)>& message,
               const std::function<void(const std::string&)>&) override {
    while (!trial_->messages.empty()) {
      const auto first = std::move(trial_->messages.front());
      trial_->messages.pop_front();
      message(first);
    }
    if (trial_->exit) trial_->connected = false;
  }
  bool connected() const override { return trial_->connected; }
  void request_stop(const std::string&) override { trial_->stop = true; }
  void terminate() override {
    trial_->terminate = true;
    kill_after(static_cast<Time>(grace_ * kSecond));
  }
  void kill() override { kill_after(scheduler_.integer(kMillisecond, kSecond)); }

 private:
  void kill_after(Time delay) {
    scheduler_.at(scheduler_.now() + delay, [&trainings = trainings_, trial = trial_] { trainings.kill(trial); });
  }

  Scheduler& scheduler_;
  Trainings& trainings_;
  std::shared_ptr<Trial> trial_;
  double grace_;
};

class SimulatedBackground final : public jobs::Background {
 public:
  SimulatedBackground(Scheduler& scheduler, std::function<double()> step)
      : scheduler_(scheduler), state_(std::make_shared<State>()) {
    task_ = scheduler.start(scheduler.process(), [&scheduler, state = state_, step = std::move(step)] {
      while (!state->stop) {
        const double pause = step();
        if (state->stop) break;
        scheduler.wait(state.get(), scheduler.now() + static_cast<Time>(pause * kSecond));
      }
      state->ended = true;
      scheduler.wake(&state->ended);
    });
  }
  ~SimulatedBackground() override {
    state_->stop = true;
    scheduler_.wake(state_.get());
    try {
      while (!state_->ended && !scheduler_.dying()) scheduler_.wait(&state_->ended, INT64_MAX / 2);
    } catch (const Killed&) {
    }
    if (!state_->ended) scheduler_.end(task_);  // before what its step refers to
  }
  void wake() override { scheduler_.wake(state_.get()); }

 private:
  struct State {
    bool stop = false, ended = false;
  };
  Scheduler& scheduler_;
  std::shared_ptr<State> state_;
  int64_t task_ = 0;
};

}  // namespace

double SimulatedWorld::steady_seconds() { return static_cast<double>(env_.scheduler.now()) / kSecond; }
uint64_t SimulatedWorld::random_bits() { return env_.scheduler.random()(); }

std::unique_ptr<jobs::RunningCommand> SimulatedWorld::start(jobs::SupervisedProcess::Options command,
                                                            const std::filesystem::path& folder) {
  auto trial = std::make_shared<Trial>();
  trial->folder = folder;
  trial->job = folder.parent_path().filename().string();
  trial->node = node_;
  trial->notify = [this] { wake(); };
  trainings_.start(trial);
  return std::make_unique<SimulatedCommand>(env_.scheduler, trainings_, trial, command.kill_grace_seconds);
}

std::unique_ptr<jobs::Background> SimulatedWorld::run_beside(std::function<double()> step) {
  return std::make_unique<SimulatedBackground>(env_.scheduler, [this, step = std::move(step)] {
    env_.thaw(node_);
    return step();
  });
}

class SimulatedWorld::LoopWaiter final : public jobs::Waiter {
 public:
  explicit LoopWaiter(SimulatedWorld& world) : world_(world) {}
  void wait(std::vector<pollfd>&, double seconds) override {
    auto& scheduler = world_.env_.scheduler;
    if (!world_.woken_) scheduler.wait(&world_, scheduler.now() + static_cast<Time>(std::ceil(seconds * kSecond)));
    world_.woken_ = false;
    scheduler.sleep_until(scheduler.now());  // where the process was killed meanwhile
    world_.env_.thaw(world_.node_);
  }
  void wake() override { world_.wake(); }

 private:
  SimulatedWorld& world_;
};

std::unique_ptr<jobs::Waiter> SimulatedWorld::make_waiter() { return std::make_unique<LoopWaiter>(*this); }

void SimulatedWorld::wake() {
  woken_ = true;
  env_.scheduler.wake(this);
}

}  // namespace foretime::simulation
