#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "base/logger/logger.h"
#include "comm/backends/factory.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/run_directory.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/compare.h"
#include "tests/acceptance/workloads.h"
#include "worker/step/trainer.h"

namespace foretime::acceptance {
namespace {

constexpr int64_t kSteps = 50, kHalf = 25;

struct Trained {
  std::map<int64_t, double> losses;  // by step, of all attempts
  torch::Tensor scores;              // of held-out candidates, by group and candidate
};

/// The scores in a run's rankings.csv: set,group,rank,candidate,id,score,…
torch::Tensor final_scores(const std::filesystem::path& folder) {
  std::ifstream file(folder / "rankings.csv");
  std::map<std::pair<std::string, std::string>, double> scores;
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::vector<std::string> words(1);
    for (const char c : line) {
      if (c == ',') words.emplace_back();
      else words.back() += c;
    }
    scores[{words.at(1), words.at(3)}] = std::stod(words.at(5));
  }
  std::vector<double> numbers;
  for (const auto& [candidate, score] : scores) numbers.push_back(score);
  return torch::tensor(numbers, torch::kDouble);
}

/// Trains in `folder`, or goes on with what is there.
Trained train_in(const std::filesystem::path& folder, configs::Settings settings, const Place& place) {
  return place.run([&] {
    settings.trainer.device = place.setting();
    settings.run.directory = folder.string();
    settings.run.overwrite = false;
    settings.trainer.steps = kSteps;
    settings.trainer.log_every = 1;
    settings.checkpoint.every_steps = kHalf;
    settings.checkpoint.keep_last = 10;
    const auto comm = comm::make_single_communicator();
    const auto log = make_logger("", spdlog::level::err);
    worker::Trainer trainer(settings, *comm, *log);
    trainer.set_up();
    Trained result;
    trainer.run();
    result.scores = final_scores(folder);
    std::ifstream metrics(folder / "metrics.jsonl");
    for (std::string text; std::getline(metrics, text);) {
      const auto line = nlohmann::json::parse(text);
      if (line.at("kind") == "train") result.losses[line.at("step")] = line.at("loss");
    }
    return result;
  });
}

/// A copy of the run as it would be had it been killed after `last` steps.
void leave_until(int64_t last, const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  const coordinator::CheckpointStore store(to / "checkpoints");
  for (const int64_t step : store.steps())
    if (step > last) std::filesystem::remove_all(store.folder(step));
}

double relative(double a, double b) { return std::abs(a - b) / std::max(std::abs(b), 1e-30); }

}  // namespace

void check_trainings(const Options& given, Rows& rows) {
  const auto options = with_small_layouts(given);
  const auto settings = layout_workload(options).settings;
  const auto device = options.device();
  const auto place_of = [&](bool on_device) { return on_device ? device : Place::cpu(); };
  std::map<bool, Trained> straight;
  for (const bool on_device : {false, true}) {
    const auto place = place_of(on_device);
    const auto folder = options.work / (on_device ? "straight_device" : "straight_cpu");
    std::filesystem::remove_all(folder);
    rows.guarded(place.name + ": 50 steps", [&] {
      straight[on_device] = train_in(folder, settings, place);
      auto& losses = straight[on_device].losses;
      rows.is_true(Kind::must, place.name + ": 50 steps, each with a finite loss",
                   static_cast<int64_t>(losses.size()) == kSteps);
      rows.figure(place.name + ": loss of the first step", losses.at(1), "loss");
      rows.figure(place.name + ": loss of the last step", losses.at(kSteps), "loss");
    });
  }
  if (straight.size() < 2 || straight[false].losses.empty() || straight[true].losses.empty()) return;
  rows.at_most(Kind::must, "loss of step 50, CPU and " + device.name,
               relative(straight[true].losses.at(kSteps), straight[false].losses.at(kSteps)), 0.05, "relative");
  for (const bool on_device : {false, true}) {
    const auto from = place_of(on_device), to = place_of(!on_device);
    const auto what = "step 25 of " + from.name + " continued on " + to.name;
    rows.guarded(what, [&] {
      const auto folder = options.work / (on_device ? "from_device" : "from_cpu");
      const auto whole = options.work / (on_device ? "straight_device" : "straight_cpu");
      leave_until(kHalf, whole, folder);
      const auto resumed = train_in(folder, settings, to);
      const auto& before = straight[on_device];
      rows.at_most(Kind::must, what + ": loss of step 26",
                   relative(resumed.losses.at(kHalf + 1), before.losses.at(kHalf + 1)), 1e-4, "relative");
      rows.at_most(Kind::must, what + ": loss of step 50",
                   relative(resumed.losses.at(kSteps), before.losses.at(kSteps)), 0.05, "relative");
    });
  }
}

}  // namespace foretime::acceptance
