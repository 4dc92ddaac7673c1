#pragma once

#include <memory>
#include <utility>

#include "base/logger/logger.h"
#include "comm/backends/factory.h"
#include "tests/acceptance/place.h"
#include "worker/step/training_step.h"

namespace foretime::acceptance {

/// A training whose steps are taken one by one, on one rank. Lives within Place::run.
class StepRun {
 public:
  StepRun(configs::Settings settings, const Place& place) {
    settings.trainer.device = place.setting();
    torch::set_num_threads(1);
    run_ = std::make_unique<worker::RunContext>(settings, *comm_, *log_, nullptr);
    worker::load_data(*run_);
    worker::build_model(*run_);
    worker::fit_transforms(*run_);
    run_->model->train();
    training_ = std::make_unique<worker::TrainingStep>(*run_, nobody_);
  }

  /// The loss of the last of so many steps. With `reads` false nothing is read back, and it is 0.
  double take(int64_t steps, bool reads = true) {
    double loss = 0;
    for (int64_t i = 0; i < steps; ++i) {
      const auto results = training_->take(step_++, reads && i + 1 == steps);
      if (!results.empty()) loss = results.back().loss;
    }
    return loss;
  }

  const worker::NamedTensors& parameters() const { return run_->optimizer->parameters(); }
  worker::RunContext& context() { return *run_; }

 private:
  std::unique_ptr<comm::Communicator> comm_ = comm::make_single_communicator();
  std::shared_ptr<spdlog::logger> log_ = make_logger("", spdlog::level::err);
  worker::TrainingListener nobody_;
  std::unique_ptr<worker::RunContext> run_;
  std::unique_ptr<worker::TrainingStep> training_;
  int64_t step_ = 0;
};

}  // namespace foretime::acceptance
