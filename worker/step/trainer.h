#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "comm/communicator.h"
#include "comm/gradient_reducer.h"
#include "configs/settings.h"
#include "coordinator/run_directory.h"
#include "sharding/shard_plan.h"
#include "worker/evaluation/evaluator.h"
#include "worker/segments/segment_training.h"
#include "worker/step/profiler.h"
#include "worker/step/step_monitor.h"
#include "worker/step/training_state.h"
#include "worker/step/weight_average.h"

namespace foretime::worker {

/// What a progress display shows after a step. Values are those of all ranks together.
struct Progress {
  int64_t step = 0, total_steps = 0;
  double loss = 0;
  double learning_rate = 0;
  double candidates_per_second = 0;  // trained on, since the last report
  double gradient_norm = 0;
  StepReport ranks;              // since the last report: time in wait for other ranks, and the slowest one
  std::optional<double> metric;  // trainer.metric at the last evaluation
};
using ProgressSink = std::function<void(const Progress&)>;

/// Of `available` threads, those that pay in the steps of a rank. Steps of little work are slower on more of them:
/// threads wait for each other at every operation, and one of them for the core that the loader's thread is on.
int threads_of_a_step(const sharding::ShardPlan& plan, int rank, int available);

/// What an agent that supervises the run hears of it and may ask of it. All are called on rank 0 only, by the training
/// thread; an empty one is not called.
struct TrainerEvents {
  /// After every step: cheap, the receiver chooses what to pass on.
  std::function<void(int64_t step, int64_t total_steps, double loss)> on_progress;
  /// `iteration`: evaluations up to this step, those before a resume included.
  std::function<void(int64_t step, int64_t iteration, const std::map<std::string, double>& metrics)> on_evaluation;
  /// Rank 0 has scored more candidates of an evaluation, which may take long.
  std::function<void(int64_t candidates)> on_scored;
  /// A whole checkpoint is in `folder`. Called before older ones are removed.
  std::function<void(int64_t step, const std::filesystem::path& folder)> on_checkpoint;
  /// Asked at every step; true ends the run at the step's end as SIGTERM does, on all ranks.
  std::function<bool()> stop_requested;
  /// The same on all ranks: a first evaluation without trainer.metric is a configs::SettingsError, since somebody waits
  /// for that metric. One of the test set is there at the end only, and chooses nothing.
  bool metric_required = false;
};

struct TrainingOutcome {
  int64_t steps = 0;  // done in all, with those before a resume
  bool preempted = false;
  Evaluation final_evaluation;  // of the best model where one was kept, else of the last
  double train_mean_runtime = 0;
};

/// Trains one model on this rank's part of the data; every rank of `comm` runs the same call. The phases of it are the
/// class's methods, in this order.
class Trainer {
 public:
  Trainer(const configs::Settings& settings, comm::Communicator& comm, spdlog::logger& log, ProgressSink progress,
          TrainerEvents events = {});

  /// Spans are recorded there; it must outlive the trainer. Before set_up.
  void profile(Profiler& profiler) { profiler_ = &profiler; }
  /// Reads headers, plans, loads this rank's groups, builds the model, resumes where there is something to resume.
  void set_up();
  /// Steps until the end, an early stop or a pre-emption, with evaluations and checkpoints on the way.
  TrainingOutcome run();
  /// The constant baseline on the same evaluation sets.
  Evaluation evaluate_constant();

 private:
  void load_data();
  void read_ahead();
  void build_model();
  void say_what_is_shared() const;
  void fit_transforms();
  void resume();
  void restore_average(const coordinator::StoredCheckpoint& checkpoint);
  void carry_over_best(const std::filesystem::path& checkpoint);
  double train_step(int64_t step, class BatchLoader& loader, const class PreemptionGuard& preemption);
  Evaluation run_evaluation(const std::vector<std::string>& sets);
  void save(int64_t step);
  void restore_best(int64_t step);
  void report_step(int64_t step, double loss);
  bool finish_evaluation(int64_t step, const Evaluation& evaluation);
  void require_metric(const Evaluation& evaluation) const;
  bool metric_of_test() const;
  int64_t total_steps() const;
  int64_t first_head_step() const;
  void train_head_only();
  void make_reducer(const NamedTensors& parameters);
  void average_running_statistics();
  void find_levels();

  configs::Settings settings_;
  comm::Communicator& comm_;
  spdlog::logger& log_;
  ProgressSink progress_;
  TrainerEvents events_;
  torch::Device device_;
  Profiler* profiler_ = nullptr;
  StepMonitor monitor_;

  sharding::DatasetIndex dataset_;
  sharding::ShardPlan plan_;
  std::unique_ptr<GroupStore> store_;
  std::unique_ptr<coordinator::RunDirectory> directory_;  // rank 0
  std::shared_ptr<models::CostModel> model_;
  TrainingState state_;
  std::unique_ptr<Adam> optimizer_;
  std::unique_ptr<WeightAverage> average_;  // null: the last weights are evaluated
  std::unique_ptr<comm::GradientReducer> reducer_;
  std::unique_ptr<SegmentTraining> segments_;  // null: whole graphs
  coordinator::EarlyStop early_stop_;
  std::vector<torch::Tensor> running_statistics_;  // buffers that a step changes (models/normalization.h)
  int64_t saved_step_ = -1;
  double gradient_norm_ = 0;
  int64_t trained_candidates_ = 0;  // by all ranks since the last report
  StepMonitor::Clock::time_point started_, reported_;
  int straggler_ = -1;            // the rank that was last logged as one
  std::optional<double> metric_;  // trainer.metric at the last evaluation
  bool preempted_ = false;
  bool head_only_ = false;
  bool levels_found_ = false;  // for the weights as they are
  bool evaluated_ = false;     // at least once since this process began
};

}  // namespace foretime::worker
