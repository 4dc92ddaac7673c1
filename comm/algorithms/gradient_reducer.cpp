#include "comm/algorithms/gradient_reducer.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <set>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "base/check.h"
#include "comm/torch_stream.h"

namespace foretime::comm {

namespace {

namespace autograd = torch::autograd;

/// Calls a function after a node of the autograd graph has run.
class AfterNode final : public autograd::FunctionPostHook {
 public:
  explicit AfterNode(std::function<void()> call) : call_(std::move(call)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs, const autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

struct Bucket {
  std::vector<size_t> members;         // parameters
  std::vector<torch::Tensor> windows;  // views of `flat`, one for each member, in its shape
  torch::Tensor flat;
  size_t waiting = 0;  // members without a final gradient in this step
  std::unique_ptr<Work> work;
};

struct Place {
  size_t bucket = 0, member = 0;
};

}  // namespace

struct GradientReducer::State {
  State(Communicator& c, std::vector<Parameter> all, Wire w, Route r) : communicator(c), wire(w), route(r) {
    for (auto& parameter : all)
      if (parameter.tensor.requires_grad()) parameters.push_back(std::move(parameter));
    touched.assign(parameters.size(), false);
  }

  void make_buckets(int64_t bucket_bytes);
  void gradient_arrived(size_t parameter);
  void fill(size_t parameter);
  void start_full_buckets();
  void note_arrivals();
  void flush();
  void finish();
  void note_unused();
  void rethrow_failure() {
    if (failure) std::rethrow_exception(failure);
  }
  /// Runs `step`, which must come after prepare(), and keeps its failure.
  template <class Step>
  void guarded(const char* name, Step&& step) {
    rethrow_failure();
    FORETIME_CHECK(armed, "{}() without prepare()", name);
    try {
      step();
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
  }

  Communicator& communicator;
  const Wire wire;
  const Route route;
  std::vector<Parameter> parameters;
  std::vector<Place> places;  // [parameters]
  // Kept alive: parameters hold them weakly. A std::shared_ptr, or LibTorch's own pointer in its newest versions.
  std::vector<decltype(autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()))> accumulators;
  std::vector<uintptr_t> hooks;  // [parameters]
  std::vector<Bucket> buckets;
  size_t next = 0;     // the first bucket that has not started
  size_t arrived = 0;  // the first bucket whose sum has not been seen

  std::mutex mutex;  // hooks of GPU parameters run on threads of the autograd engine
  bool armed = false;
  bool flushed = false;
  std::vector<bool> touched;  // [parameters] gradient computed by any backward since the last finish
  std::vector<bool> filled;   // [parameters] gradient computed by the armed backward; empty before the first
  std::exception_ptr failure;
  std::vector<std::string> unused;
  std::set<size_t> named_unused;
  Timing timing;
  std::unique_ptr<StreamTimer> timer;         // measures the waits of a GPU
  std::vector<std::unique_ptr<Work>> before;  // works of the last step, if a GPU waits for them
};

void GradientReducer::State::make_buckets(int64_t bucket_bytes) {
  places.resize(parameters.size());
  int64_t bytes = 0;
  for (size_t i = parameters.size(); i-- > 0;) {
    const auto& tensor = parameters[i].tensor;
    const int64_t more = tensor.nbytes();
    const bool fits = !buckets.empty() && bytes + more <= bucket_bytes &&
                      tensor.options().type_equal(parameters[buckets.back().members.front()].tensor.options()) &&
                      tensor.device() == parameters[buckets.back().members.front()].tensor.device();
    if (!fits) {
      buckets.emplace_back();
      bytes = 0;
    }
    places[i] = {buckets.size() - 1, buckets.back().members.size()};
    buckets.back().members.push_back(i);
    bytes += more;
  }
  for (auto& bucket : buckets) {
    int64_t length = 0;
    for (const size_t i : bucket.members) length += parameters[i].tensor.numel();
    bucket.flat = torch::zeros({length}, parameters[bucket.members.front()].tensor.options().requires_grad(false));
    int64_t at = 0;
    for (const size_t i : bucket.members) {
      const auto& tensor = parameters[i].tensor;
      bucket.windows.push_back(bucket.flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
  }
}

void GradientReducer::State::gradient_arrived(size_t parameter) {
  const std::lock_guard lock(mutex);
  touched[parameter] = true;
  if (!armed || failure) return;
  try {
    FORETIME_CHECK(!filled[parameter],
                   "parameter {} got a second gradient after prepare(), when its bucket may have left",
                   parameters[parameter].name);
    fill(parameter);
    start_full_buckets();
    note_arrivals();
  } catch (...) {
    // The engine hands this to the caller of backward; finish() throws it again for callers that went on.
    failure = std::current_exception();
    throw;
  }
}

void GradientReducer::State::fill(size_t parameter) {
  const torch::NoGradGuard no_grad;
  auto& bucket = buckets[places[parameter].bucket];
  auto& window = bucket.windows[places[parameter].member];
  const auto& gradient = parameters[parameter].tensor.grad();
  if (gradient.defined()) window.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  else window.zero_();
  filled[parameter] = true;
  --bucket.waiting;
}

void GradientReducer::State::start_full_buckets() {
  for (; next < buckets.size() && buckets[next].waiting == 0; ++next) {
    auto& flat = buckets[next].flat;
    // NCCL knows links and hosts by itself.
    const bool in_tree =
        flat.scalar_type() == torch::kFloat && (wire == Wire::bfloat16 || communicator.device().is_cpu());
    timing.buckets[next] = {static_cast<int64_t>(flat.nbytes()), Clock::now(), {}};
    buckets[next].work =
        in_tree ? sum_in_tree(communicator, flat, wire, route) : communicator.all_reduce(flat, ReduceOp::sum);
  }
}

/// MPI moves data only inside its calls, so this is also what keeps started buckets moving.
void GradientReducer::State::note_arrivals() {
  for (; arrived < next && buckets[arrived].work->poll(); ++arrived) timing.buckets[arrived].done = Clock::now();
}

void GradientReducer::State::flush() {
  if (std::exchange(flushed, true)) return;
  const torch::NoGradGuard no_grad;
  timing.started_early = next;
  for (size_t i = parameters.size(); i-- > 0;)
    if (!filled[i]) fill(i);
  start_full_buckets();
}

void GradientReducer::State::finish() {
  const torch::NoGradGuard no_grad;
  flush();
  // The stream of the GPU waits for the sums of its transport; the host continues.
  const bool ordered = !communicator.device().is_cpu() && std::ranges::all_of(buckets, [&](const Bucket& each) {
    return each.flat.device() == communicator.device();
  });
  if (ordered && !timer) timer = make_stream_timer(communicator.device().index());
  if (ordered && timer) timer->begin();
  timing.wait_began = Clock::now();
  for (size_t i = 0; i < buckets.size(); ++i) {
    ordered ? buckets[i].work->order() : buckets[i].work->wait();
    if (i >= arrived) timing.buckets[i].done = Clock::now();
  }
  if (ordered && timer) timer->end();
  // A queue of launches that is full blocks without a time limit, so the GPU is never more than a step behind.
  for (auto& work : std::exchange(before, {})) work->wait();
  for (auto& bucket : buckets) {
    auto work = std::move(bucket.work);
    if (ordered) before.push_back(std::move(work));
  }
  arrived = buckets.size();
  timing.wait_ended = Clock::now();
  if (!ordered) timing.exposed_seconds = std::chrono::duration<double>(timing.wait_ended - timing.wait_began).count();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& window = buckets[places[i].bucket].windows[places[i].member];
    auto& gradient = parameters[i].tensor.mutable_grad();
    // In place where possible: optimisers and callers may hold on to the gradient.
    if (gradient.defined() && !gradient.is_sparse()) gradient.copy_(window);
    else gradient = window.clone();
  }
}

void GradientReducer::State::note_unused() {
  const bool worked = std::find(touched.begin(), touched.end(), true) != touched.end();
  for (size_t i = 0; worked && i < parameters.size(); ++i)
    if (!touched[i] && named_unused.insert(i).second) unused.push_back(parameters[i].name);
  touched.assign(parameters.size(), false);
}

GradientReducer::GradientReducer(Communicator& communicator, std::vector<Parameter> parameters, int64_t bucket_bytes,
                                 Wire wire, Route route)
    : state_(std::make_shared<State>(communicator, std::move(parameters), wire, route)) {
  auto& state = *state_;
  for (const auto& parameter : state.parameters)
    FORETIME_CHECK(parameter.tensor.is_leaf(), "parameter {}", parameter.name);
  // Alone, there is nothing to sum, and the buckets would only cost their copies.
  if (communicator.size() > 1) state.make_buckets(bucket_bytes);
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    auto accumulator = autograd::impl::grad_accumulator(state.parameters[i].tensor);
    const std::weak_ptr<State> weak = state_;
    state.hooks.push_back(accumulator->add_post_hook(std::make_unique<AfterNode>([weak, i] {
      if (const auto alive = weak.lock()) alive->gradient_arrived(i);
    })));
    state.accumulators.push_back(std::move(accumulator));
  }
}

GradientReducer::~GradientReducer() {
  for (size_t i = 0; i < state_->accumulators.size(); ++i) state_->accumulators[i]->del_post_hook(state_->hooks[i]);
}

void GradientReducer::prepare() {
  const std::lock_guard lock(state_->mutex);
  state_->rethrow_failure();
  FORETIME_CHECK(!state_->armed, "prepare() twice without finish()");
  state_->armed = state_->communicator.size() > 1;
  state_->flushed = false;
  state_->next = state_->arrived = 0;
  state_->timing = {};
  state_->timing.buckets.resize(state_->buckets.size());
  state_->filled.assign(state_->parameters.size(), false);
  for (auto& bucket : state_->buckets) bucket.waiting = bucket.members.size();
}

void GradientReducer::flush() {
  const std::lock_guard lock(state_->mutex);
  if (state_->communicator.size() > 1) state_->guarded("flush", [this] { state_->flush(); });
}

void GradientReducer::finish() {
  const std::lock_guard lock(state_->mutex);
  if (state_->communicator.size() > 1) {
    state_->guarded("finish", [this] { state_->finish(); });
    state_->armed = false;
  } else {
    for (auto& parameter : state_->parameters) {
      auto& gradient = parameter.tensor.mutable_grad();
      if (!gradient.defined()) gradient = torch::zeros_like(parameter.tensor);
    }
  }
  state_->note_unused();
}

std::vector<std::string> GradientReducer::take_unused() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->unused, {});
}

GradientReducer::Timing GradientReducer::timing() const {
  const std::lock_guard lock(state_->mutex);
  auto timing = state_->timing;
  if (state_->timer) timing.exposed_seconds = state_->timer->seconds();
  return timing;
}

}  // namespace foretime::comm
