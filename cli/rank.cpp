#include "base/text.h"
#include "cli/light/rank_command.h"
#include "configs/settings_error.h"
#include "coordinator/best_checkpoint.h"
#include "data/dataset/table_pack.h"
#include "data/frontends/loops/loop_graph.h"
#include "worker/evaluation/evaluation_run.h"
#include "worker/export/bundles.h"
#include "worker/run/display.h"

namespace foretime::cli {
namespace {

worker::Ensemble load(const RankArguments& arguments) {
  std::vector<std::string> checkpoints = {arguments.model};
  checkpoints.insert(checkpoints.end(), arguments.ensemble.begin(), arguments.ensemble.end());
  std::vector<worker::EnsembleMember> members;
  for (const auto& checkpoint : checkpoints)
    members.push_back({checkpoint, worker::load_trained_model(coordinator::read_best_or_newest(checkpoint))});
  return {std::move(members), torch::kCPU};
}

}  // namespace

void rank_checkpoints(const RankArguments& arguments) {
  if (needs_bundle(arguments)) {
    const auto trained = worker::load_trained_model(coordinator::read_best_or_newest(arguments.model));
    return rank_bundle(worker::make_bundle(trained, {}), arguments);
  }
  if (arguments.threads)
    throw configs::SettingsError(
        "--threads: only for bundles, records and texts; a checkpoint ranks graph files with as many threads as "
        "OMP_NUM_THREADS says (or export it: foretime export {} model.foretime)",
        shell_word(arguments.model));
  const auto ensemble = load(arguments);
  const auto& state = ensemble.state();
  const auto headers = data::list_groups(arguments.files, ".", state.schema.kind, {},
                                         data::make_featurizer(state.settings.data, state.schema.feature_count));
  for (const auto& header : headers)
    if (header.feature_count != state.schema.feature_count)
      throw DataError("{}: found {} node features, expected {} as in the model's training data", header.file.string(),
                      header.feature_count, state.schema.feature_count);
  data::check_columns(headers, state.columns, "the model");
  RankOutput output(arguments, arguments.format.empty() ? "csv" : arguments.format);
  rank_groups(headers, output, [&](const data::GroupHeader&, const data::Group& group) {
    auto ranking = worker::ranking_of(ensemble.rank(group));
    ranking.ids.clear();
    if (!group.candidate_ids.empty())
      for (const int64_t c : ranking.candidates) ranking.ids.push_back(group.candidate_ids[c]);
    return ranking;
  });
  output.write();
}

}  // namespace foretime::cli
