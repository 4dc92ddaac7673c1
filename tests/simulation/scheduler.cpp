#include "tests/simulation/scheduler.h"

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include <cxxabi.h>
#include <ucontext.h>

namespace foretime::simulation {
namespace {

constexpr size_t kStackBytes = 512 << 10;

/// What the C++ runtime keeps for each thread about exceptions in flight; tasks share one thread (Itanium C++ ABI,
/// 2.2.2).
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};
ExceptionState& exception_state() { return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals()); }

}  // namespace

struct Scheduler::Task {
  int64_t number = 0, process = 0;
  std::function<void()> body;
  std::unique_ptr<char[]> stack;
  ucontext_t context{}, back{};
  ExceptionState exceptions{};
  int64_t ticket = 0;  // of the wait that may resume it; older ones are out of date
  bool killed = false, ended = false, woken = false;
  const void* waits_for = nullptr;
  std::exception_ptr failure;
};

Scheduler::Scheduler(uint64_t seed) : random_(seed) {}

Scheduler::~Scheduler() {
  while (!tasks_.empty()) kill(tasks_.begin()->second->process);
}

int64_t Scheduler::integer(int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
}

void Scheduler::enter(unsigned int low, unsigned int high) {
  auto* task = reinterpret_cast<Task*>(static_cast<uintptr_t>(low) | static_cast<uintptr_t>(high) << 32);
  try {
    if (!task->killed) task->body();
  } catch (const Killed&) {
  } catch (...) {
    task->failure = std::current_exception();
  }
  task->body = nullptr;
  task->ended = true;
  swapcontext(&task->context, &task->back);
}

int64_t Scheduler::start(int64_t process, std::function<void()> body) {
  auto task = std::make_shared<Task>();
  task->process = process;
  task->body = std::move(body);
  if (stacks_.empty()) {
    task->stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  } else {
    task->stack = std::move(stacks_.back());
    stacks_.pop_back();
  }
  getcontext(&task->context);
  task->context.uc_stack.ss_sp = task->stack.get();
  task->context.uc_stack.ss_size = kStackBytes;
  task->context.uc_link = nullptr;
  const auto address = reinterpret_cast<uintptr_t>(task.get());
  makecontext(&task->context, reinterpret_cast<void (*)()>(&Scheduler::enter), 2, static_cast<unsigned int>(address),
              static_cast<unsigned int>(address >> 32));
  task->number = ++order_;
  tasks_[task->number] = task;
  schedule(now_, task);
  return task->number;
}

void Scheduler::schedule(Time time, const std::shared_ptr<Task>& task) {
  const auto ticket = ++order_;
  task->ticket = ticket;
  due_.push_back({std::max(time, now_), ticket, task, nullptr});
  std::push_heap(due_.begin(), due_.end(), Later());
}

void Scheduler::at(Time time, std::function<void()> action) {
  due_.push_back({std::max(time, now_), ++order_, nullptr, std::move(action)});
  std::push_heap(due_.begin(), due_.end(), Later());
}

bool Scheduler::dying() const { return running_ && running_->killed; }
int64_t Scheduler::process() const { return running_ ? running_->process : 0; }

void Scheduler::resume(const std::shared_ptr<Task>& task) {
  const auto before = std::exchange(running_, task);
  ++steps_;
  const auto outer = std::exchange(exception_state(), task->exceptions);
  swapcontext(&task->back, &task->context);
  task->exceptions = std::exchange(exception_state(), outer);
  running_ = before;
  if (!task->ended) return;
  tasks_.erase(task->number);
  stacks_.push_back(std::move(task->stack));
  if (task->failure) std::rethrow_exception(task->failure);
}

void Scheduler::suspend() {
  auto* task = running_.get();
  swapcontext(&task->context, &task->back);
  if (task->killed && std::uncaught_exceptions() == 0) throw Killed();
}

void Scheduler::kill(int64_t process) {
  std::vector<std::shared_ptr<Task>> doomed;
  for (const auto& [number, task] : tasks_) {
    if (task->process == process && task != running_) doomed.push_back(task);
  }
  for (const auto& task : doomed) task->killed = true;
  for (const auto& task : doomed) unwind(task);
}

void Scheduler::end(int64_t task) {
  const auto found = tasks_.find(task);
  if (found != tasks_.end() && found->second != running_) unwind(std::shared_ptr(found->second));
}

void Scheduler::unwind(const std::shared_ptr<Task>& task) {
  task->killed = true;
  task->ticket = ++order_;
  while (!task->ended) resume(task);
}

void Scheduler::sleep_until(Time time) {
  if (dying()) {
    if (std::uncaught_exceptions() == 0) throw Killed();
    return;
  }
  schedule(time, running_);
  suspend();
}

bool Scheduler::wait(const void* address, Time until) {
  const auto task = running_;
  task->woken = false;
  task->waits_for = address;
  waiting_[address].push_back(task);
  sleep_until(until);
  auto& others = waiting_[address];
  std::erase(others, task);
  if (others.empty()) waiting_.erase(address);
  task->waits_for = nullptr;
  return task->woken;
}

void Scheduler::wake(const void* address) {
  const auto found = waiting_.find(address);
  if (found == waiting_.end()) return;
  for (const auto& task : found->second) {
    task->woken = true;
    schedule(now_, task);
  }
}

void Scheduler::run_until(Time end) {
  while (!due_.empty() && due_.front().time <= end) {
    std::pop_heap(due_.begin(), due_.end(), Later());
    const auto due = std::move(due_.back());
    due_.pop_back();
    if (due.task && (due.task->ended || due.task->ticket != due.order)) continue;
    now_ = due.time;
    if (due.task) resume(due.task);
    else due.action();
  }
  now_ = std::max(now_, end);
}

}  // namespace foretime::simulation
