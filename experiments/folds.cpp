#include "experiments/folds.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/loops/loop_graph.h"
#include "experiments/error.h"
#include "jobs/error.h"
#include "sharding/dataset_index.h"

namespace foretime::experiments {
namespace {

namespace fs = std::filesystem;

/// A name below `root` travels with jobs to machines whose data lie elsewhere.
std::string below(const fs::path& file, const fs::path& root) {
  const auto relative = file.lexically_normal().lexically_relative(root.lexically_normal());
  return relative.empty() || *relative.begin() == ".." ? file.string() : relative.string();
}

}  // namespace

std::vector<Fold> make_folds(const Experiment& experiment) {
  const auto& rule = experiment.folds;
  if (rule.count == 0) return {};
  const auto& data = experiment.base.data;
  const auto groups =
      data::list_groups(rule.groups, data.root, sharding::candidate_kind(data.format), {}, data::make_featurizer(data));
  if (static_cast<int64_t>(groups.size()) < rule.count)
    throw DataError(fmt::format("{}: folds: found {} groups below {}, expected at least the {} folds",
                                experiment.origin, groups.size(), data.root, rule.count));
  std::vector<Fold> folds(static_cast<size_t>(rule.count));
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto& group = groups[g];
    if (group.member >= 0)
      throw DataError(fmt::format(
          "{}: a packed collection, whose groups cannot lie in different folds; name the .npz files that it "
          "was made from under folds",
          group.file.string()));
    if (group.name != data::plain_name(group.name))
      throw DataError(
          fmt::format("{}: its name is that of a group of another collection; folds need groups of different names",
                      group.file.string()));
    for (size_t f = 0; f < folds.size(); ++f)
      (g % folds.size() == f ? folds[f].test : folds[f].train).push_back(below(group.file, data.root));
  }
  return folds;
}

void apply_fold(const Fold& fold, configs::Settings& settings, const std::string& origin) {
  settings.data.train = fold.train;
  settings.data.test = fold.test;
  settings.data.valid.clear();
  settings.data.eval_indices.clear();
  settings.data.holdout = 0;
  auto& trainer = settings.trainer;
  if (trainer.early_stop.patience > 0)
    throw ExperimentError(
        fmt::format("{}: trainer.early_stop.patience: found {}: folds leave no groups to stop by; set it to 0", origin,
                    trainer.early_stop.patience));
  trainer.metric = "test/" + trainer.metric.substr(trainer.metric.find('/') + 1);
}

}  // namespace foretime::experiments
