/// What a training step asks of a GPU, counted where there is none: operations, kernels of our own, copies to the
/// device, and waits of the host. Each budget is a limit that a change may not pass unnoticed; docs/explanations/gpu.md
/// has the table.
#include <functional>

#include <gtest/gtest.h>

#include "base/logger/logger.h"
#include "comm/backends/factory.h"
#include "configs/load.h"
#include "models/gpu/launch.h"
#include "tests/support/op_counter.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"
#include "tests/support/synthetic_graph.h"
#include "tests/worker/samples.h"
#include "worker/step/training_step.h"

namespace foretime::worker {
namespace {

/// Of one step.
struct Counts {
  double operations = 0, kernels = 0, uploads = 0, waits = 0;
  std::string list;
};

/// The mean of some steps between two reports.
Counts count_steps(const configs::Settings& settings) {
  torch::set_num_threads(1);
  const gpu::GpuKernelsOnCpu on_gpu_kernels;
  const auto comm = comm::make_single_communicator();
  const auto log = make_logger("", spdlog::level::err);
  RunContext run(settings, *comm, *log, nullptr);
  load_data(run);
  build_model(run);
  fit_transforms(run);
  run.model->train();
  TrainingListener nobody;
  TrainingStep training(run, nobody);
  int64_t step = 0;
  for (; step < 3; ++step) training.take(step, /*read_back=*/true);
  constexpr int64_t kSteps = 4;
  const int64_t kernels = gpu::launches(), uploads = gpu::Arena::uploads();
  const foretime::testing::OpCounter counter;
  for (int64_t i = 0; i < kSteps; ++i) EXPECT_TRUE(training.take(step++, /*read_back=*/false).empty());
  const auto each = [](int64_t count) { return static_cast<double>(count) / kSteps; };
  return {each(counter.operations()), each(gpu::launches() - kernels), each(gpu::Arena::uploads() - uploads),
          each(counter.waits()), counter.list()};
}

configs::Settings quick(configs::Settings settings, const std::filesystem::path& folder) {
  settings.run.directory = (folder / "run").string();
  settings.run.overwrite = true;
  settings.trainer.steps = 20;
  settings.trainer.eval_every = 0;
  settings.trainer.device = configs::Device::cpu;
  settings.checkpoint.every_steps = 0;
  settings.data.valid = settings.data.test = {};
  settings.data.eval_indices.clear();
  settings.data.holdout = 0.2;
  settings.trainer.metric = "holdout/kendall_tau";
  return settings;
}

class StepBudget : public ::testing::Test {
 protected:
  /// A published layout model on four made-up graphs, all nodes of which are trained.
  configs::Settings layouts(const std::string& config, const std::vector<std::string>& overrides = {}) const {
    for (const char* name : {"synthetic_a", "synthetic_b", "synthetic_c", "synthetic_d"}) {
      const auto file = scratch_.path() / (std::string(name) + ".foretime");
      if (!std::filesystem::exists(file))
        foretime::testing::write_synthetic(file, {.nodes = 90, .configurable = 20, .candidates = 64, .seed = 1});
    }
    auto settings = quick(configs::load_settings(repository() / config, overrides), scratch_.path());
    settings.data.root = scratch_.path().string();
    settings.data.train = {"*.foretime"};
    settings.sampler.groups_per_batch = 4;
    settings.sampler.max_segment_nodes = 0;
    settings.segments = {};
    return settings;
  }
  configs::Settings programs(const std::string& config) const {
    auto settings = quick(configs::load_settings(repository() / config, {}), scratch_.path());
    settings.data.root = (foretime::testing::samples_dir() / "resnet18_conv2d").string();
    settings.data.train = {"{C1,C2,C4,C8}.npz"};
    settings.sampler.groups_per_batch = 4;
    return settings;
  }
  static std::filesystem::path repository() { return foretime::testing::source_dir(); }

  void expect(const std::string& what, const configs::Settings& settings, double launches) const {
    const auto found = count_steps(settings);
    std::cout << what << ": " << found.operations << " operations, " << found.kernels << " kernels of our own, "
              << found.uploads << " uploads, " << found.waits << " waits a step\n";
    EXPECT_LE(found.operations + found.kernels, launches) << what << ": in all steps " << found.list;
    EXPECT_EQ(found.waits, 0) << what;
    EXPECT_LE(found.uploads, 1) << what;
  }

  foretime::testing::Scratch scratch_;
};

TEST_F(StepBudget, OfLayouts) {
  expect("residual GCN 2 x 32", layouts("configs/baselines/residual_gcn.yaml"), 150);
  expect("SAGE 3 x 256",
         layouts("configs/baselines/residual_gcn.yaml", {"model.type=sage", "model.layers=3", "model.hidden=256"}),
         170);
  expect("GAT", layouts("configs/baselines/xu_gat_listmle_layout.yaml"), 180);
}

TEST_F(StepBudget, OfPrograms) {
  expect("statement costs", programs("configs/statement_cost.yaml"), 290);
  // Which nodes stay after a layer is known to the device alone, which makes the next layer's matrices of it.
  expect("TPGNN", programs("configs/tpgnn.yaml"), 300);
}

}  // namespace
}  // namespace foretime::worker
