#include "worker/step/training_step.h"

#include <cmath>

#include "base/counter_random.h"
#include "comm/communicator.h"
#include "models/autograd/autocast.h"
#include "models/layers/layers.h"
#include "worker/profile/profiler.h"
#include "worker/segments/segment_training.h"

namespace foretime::worker {
namespace {

/// Returns the numbers of a step that are summed over ranks, [5] on `device`, without waiting for a GPU.
torch::Tensor summed_numbers(const StepResult& own, const torch::Tensor& loss, torch::Device device) {
  const auto number = [&](double value) {
    return torch::full({1}, value, torch::dtype(torch::kDouble).device(device));
  };
  return torch::cat({loss.to(device), number(own.candidates), number(own.stop_requests),
                     number(own.checkpoint_requests), number(own.failed_stores)});
}

}  // namespace

TrainingStep::TrainingStep(RunContext& run, TrainingListener& events)
    : run_(run),
      events_(events),
      sampler_(run.plan, run.settings.sampler, run.settings.trainer.seed),
      loader_(sampler_, *run.store, run.state.targets, *run.forward, LossForm::of(run.settings), run.comm.rank(),
              run.profiler),
      monitor_(run.profiler) {
  reduce_parameters(run.optimizer->parameters());
  for (const auto& buffer : run.model->named_buffers())
    if (models::is_running_statistic(buffer.key())) running_statistics_.push_back(buffer.value());
}

std::vector<StepResult> TrainingStep::take(int64_t step, bool read_back) {
  begin(step);
  const models::Tf32Products products(run_.settings.trainer.precision == configs::Precision::tf32);
  const int64_t parts = run_.settings.optimizer.accumulation;
  for (int64_t part = 0; part < parts; ++part) {
    const auto batch = next_batch(step, part);
    if (batch.candidates == 0) continue;
    const auto scores = forward(batch);
    const auto loss = mean_loss(run_.settings.loss, scores, batch, parts);
    backward(loss);
    own_loss_ += loss.detach();
    own_.candidates += batch.candidates;
  }
  torch::Tensor totals;
  const auto reduction = reduce(totals);
  const auto norm = update(step);
  finish(totals, norm, reduction.get());
  return read_back ? read_results() : std::vector<StepResult>();
}

void TrainingStep::begin(int64_t step) {
  monitor_.begin_step();
  own_ = {.step = step + 1};
  own_loss_ = torch::zeros({1}, torch::dtype(torch::kDouble).device(run_.device));
  // Dropout's generator is seeded for each step and rank, so that checkpoints need not store its state.
  torch::manual_seed(random_bits({run_.settings.trainer.seed, random_stream::dropout, step, run_.comm.rank()}));
  run_.optimizer->zero_grad();
}

Batch TrainingStep::next_batch(int64_t step, int64_t part) {
  monitor_.enter("loader");
  const int64_t parts = run_.settings.optimizer.accumulation, number = step * parts + part;
  auto batch = loader_.get(number, number + 1 < run_.total_steps() * parts);
  if (part + 1 == parts) reducer_->prepare();
  if (batch.candidates > 0) monitor_.working_on(batch.largest_group);
  return batch;
}

std::vector<torch::Tensor> TrainingStep::forward(const Batch& batch) {
  monitor_.enter("forward");
  if (batch.plan.upload) batch.plan.upload->wait();
  const models::Autocast precision(run_.device, run_.settings.trainer.precision == configs::Precision::bfloat16);
  return run_.forward->scores(*run_.model, batch, *run_.store);
}

void TrainingStep::backward(const torch::Tensor& loss) {
  monitor_.enter("backward");
  loss.backward();  // buckets are reduced as they fill
}

std::unique_ptr<comm::Work> TrainingStep::reduce(torch::Tensor& totals) {
  monitor_.enter("reduce");
  reducer_->flush();
  own_.stop_requests = events_.stop_requested() ? 1.0 : 0.0;
  own_.checkpoint_requests = events_.checkpoint_requested() ? 1.0 : 0.0;
  own_.failed_stores = run_.store->failed() ? 1.0 : 0.0;
  std::unique_ptr<comm::Work> work;
  if (run_.comm.size() > 1) {
    totals = summed_numbers(own_, own_loss_, run_.comm.device());
    work = run_.comm.all_reduce(totals);
  }
  reducer_->finish();
  const auto timing = reducer_->timing();
  record_reduction(run_.profiler, timing);
  monitor_.waited(timing.exposed_seconds);
  return work;
}

torch::Tensor TrainingStep::update(int64_t step) {
  monitor_.enter("step");
  const auto& settings = run_.settings.optimizer;
  for (const auto& name : reducer_->take_unused())
    run_.log.info("parameter {} had no gradient; it counts as zeros", name);
  auto norm = run_.optimizer->clip_and_step(learning_rate_at(settings, step, run_.total_steps()));
  run_.forward->end_step(step + 1, run_.comm);
  average_running_statistics();
  if (run_.average) run_.average->update(step + 1);  // must follow the averaging of running statistics
  return norm;
}

void TrainingStep::finish(const torch::Tensor& totals, const torch::Tensor& norm, comm::Work* reduction) {
  monitor_.enter("totals");
  if (reduction != nullptr) {
    const auto waiting = StepMonitor::Clock::now();
    reduction->order();
    monitor_.waited(std::chrono::duration<double>(StepMonitor::Clock::now() - waiting).count());
    unread_.push_back({own_, torch::cat({totals, norm.to(totals.device())})});
  } else {
    unread_.push_back({own_, torch::cat({own_loss_, norm})});
  }
  monitor_.end_step();
}

std::vector<StepResult> TrainingStep::read_results() {
  run_.comm.settle();
  std::vector<torch::Tensor> numbers;
  for (const auto& each : unread_) numbers.push_back(each.numbers);
  const auto host = torch::cat(numbers).to(torch::kCPU);
  const auto* value = host.data_ptr<double>();
  std::vector<StepResult> results;
  for (const auto& each : std::exchange(unread_, {})) {
    auto& result = results.emplace_back(each.known);
    result.loss = *value++;
    if (run_.comm.size() > 1)
      for (double* sum :
           {&result.candidates, &result.stop_requests, &result.checkpoint_requests, &result.failed_stores})
        *sum = *value++;
    result.gradient_norm = *value++;
  }
  for (const auto& result : results) {
    if (result.failed_stores > 0) comm::run_together(run_.comm, [&] { run_.store->check(); });
    if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm))
      throw coordinator::RunError(
          "step {}: loss {} and gradient norm {}: training has diverged; "
          "try a lower optimizer.learning_rate, or a smaller optimizer.clip_norm (where the run has checkpoints, "
          "with run.overwrite=true or another run.directory)",
          result.step, result.loss, result.gradient_norm);
  }
  return results;
}

/// Called after every step, so that all ranks evaluate, average and save equal models.
void TrainingStep::average_running_statistics() {
  auto& comm = run_.comm;
  if (running_statistics_.empty() || comm.size() == 1) return;
  std::vector<torch::Tensor> flat;
  for (const auto& buffer : running_statistics_) flat.push_back(buffer.flatten());
  auto joined = torch::cat(flat).to(comm.device());
  comm.all_reduce(joined)->order();
  joined = joined.to(run_.device) / comm.size();
  int64_t at = 0;
  for (auto& buffer : running_statistics_) {
    buffer.copy_(joined.narrow(0, at, buffer.numel()).view_as(buffer));
    at += buffer.numel();
  }
}

void TrainingStep::reduce_parameters(const NamedTensors& parameters) {
  using Reducer = comm::GradientReducer;
  std::vector<Reducer::Parameter> list;
  for (const auto& [name, tensor] : parameters) list.push_back({name, tensor});
  const auto& settings = run_.settings.comm;
  reducer_ = std::make_unique<Reducer>(
      run_.comm, std::move(list), settings.bucket_bytes,
      settings.gradient_dtype == configs::GradientType::bfloat16 ? comm::Wire::bfloat16 : comm::Wire::float32,
      settings.hierarchical ? comm::Route::fastest : comm::Route::direct);
}

void TrainingStep::train_head_only() {
  if (std::exchange(head_only_, true)) return;
  NamedTensors head;
  for (const auto& [name, tensor] : run_.optimizer->parameters()) {
    if (is_head_parameter(name)) head.emplace_back(name, tensor);
    else torch::Tensor(tensor).requires_grad_(false);
  }
  run_.optimizer->zero_grad();
  reduce_parameters(head);
  run_.log.info("the last {} steps train the head alone", run_.settings.segments.finetune_steps);
}

}  // namespace foretime::worker
