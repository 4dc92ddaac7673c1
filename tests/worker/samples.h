#pragma once

#include "tests/support/paths.h"
#include "tests/worker/run_parts.h"

namespace foretime::worker::testing {

/// Settings for a quick run on three measured workloads.
inline configs::Settings sample_settings(double fast_bias = 0) {
  configs::Settings settings;
  settings.data.format = configs::DataFormat::programs;
  settings.data.root = (foretime::testing::samples_dir() / "resnet18_conv2d").string();
  settings.data.train = {"C1.npz", "C12.npz"};
  settings.data.test = {"C10.npz"};
  settings.data.holdout = 0.2;
  settings.data.max_eval_candidates = 40;
  settings.model.type = configs::ModelType::gcn;
  settings.model.hidden = 16;
  settings.model.readout = {configs::ReadoutPart::mean};
  settings.model.features.transform = configs::FeatureTransform::zscore;
  settings.loss.type = configs::LossType::huber;
  settings.loss.target = configs::LossTarget::log_runtime;
  settings.loss.standardize_target = true;
  settings.sampler = {.groups_per_batch = 3, .candidates_per_group = 8, .fast_bias = fast_bias, .samples_per_group = 5};
  settings.trainer.steps = 6;
  settings.trainer.metric = "holdout/kendall_tau";
  settings.trainer.device = configs::Device::cpu;
  settings.trainer.log_every = 1;
  return settings;
}

/// The parts of such a run.
struct SampleRun : RunParts {
  explicit SampleRun(int rank_count, double fast_bias = 0)
      : RunParts(sample_settings(fast_bias), rank_count), ranks(rank_count) {}

  int ranks;
};

}  // namespace foretime::worker::testing
