#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/message.h"
#include "base/threads.h"
#include "cli/light/rank_command.h"
#include "cli/light/workload_texts.h"
#include "configs/load.h"
#include "data/dataset/group_files.h"
#include "data/files/file_form.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/hlo/candidates.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/model.h"
#include "inference/scoring/program_scorer.h"
#include "inference/scoring/ranking.h"

namespace foretime::cli {
namespace {

/// Returns predicted run times in the unit of the training data; empty if the model predicts none, or needs unknown
/// flops.
std::vector<double> predicted_runtimes(const inference::Model& model, std::span<const float> scores,
                                       std::span<const double> flops) {
  const auto& spec = model.spec();
  const bool needs_flops = spec.targets.kind == configs::LossTarget::log_runtime_per_flop;
  if (!spec.predicts_runtimes || (needs_flops && flops.empty())) return {};
  return model.runtimes(scores, flops);
}

inference::Ranking ranking_of(const inference::Model& model, std::string group, std::span<const float> scores,
                              std::span<const double> flops, std::vector<std::string> ids) {
  inference::Ranking ranking{.group = std::move(group)};
  ranking.candidates.resize(scores.size());
  std::iota(ranking.candidates.begin(), ranking.candidates.end(), 0);
  ranking.scores.assign(scores.begin(), scores.end());
  ranking.predicted = predicted_runtimes(model, scores, flops);
  ranking.ids = std::move(ids);
  return ranking;
}

inference::Ranking ranking_of(const inference::Model& model, Workload&& workload,
                              const inference::ProgramScores& result, double operations) {
  if (result.failed > 0)
    print_message("foretime: {}: {} of {} programs not scored, the first: {}: {}\n", workload.name, result.failed,
                  result.scores.size(), to_string(workload.places[result.first_failed_index]), result.first_reason);
  const std::vector<double> flops(operations > 0.0 ? result.scores.size() : 0, operations);
  auto ranking = ranking_of(model, std::move(workload.name), result.scores, flops, std::move(workload.ids));
  ranking.failures.assign(result.failures.begin(), result.failures.end());
  return ranking;
}

/// Tuning records of all files together, a ranking a workload in the order of the first records. Candidates are counted
/// in their workload; ids are 0-based lines, after the file's name (data::record_file_names) and a colon where there
/// are several files. Costs in records are not looked at. What cannot be scored is last, with +infinity; lines that are
/// no records, and workloads without a compute DAG, are left out; both are said on standard error. Throws DataError
/// where nothing is left, and for files that cannot be read; SettingsError without `dags`.
std::vector<inference::Ranking> rank_records(const std::shared_ptr<const inference::Model>& model,
                                             const std::vector<std::string>& files, const RankArguments& arguments) {
  const auto& dags = arguments.dags;
  expect_dags(dags, files.front());
  const data::DagTable table(dags);
  Workloads workloads;
  const auto names = data::record_file_names({files.begin(), files.end()});
  for (size_t f = 0; f < files.size(); ++f) read_records(files[f], files.size() > 1 ? names[f] : "", workloads);
  Warnings missing;
  UnknownMachines unknown;
  NamedMachines named(arguments.targets);
  std::vector<inference::Ranking> rankings;
  for (auto& workload : workloads.all()) {
    const auto* line = table.find_line(workload.key);
    if (line == nullptr) {
      missing.add(workload.key);
      continue;
    }
    unknown.add(model->spec().machines, workload);
    named.add(workload);
    const inference::WorkloadScorer scorer(model, *line);
    const auto scores = scorer.score(views(workload.texts));
    rankings.push_back(ranking_of(*model, std::move(workload), scores, scorer.dag().flops));
  }
  missing.print(dags, "workloads of the records are not in it");
  unknown.print(files.front(), "and give them with --targets");
  named.print(files.front());
  if (rankings.empty()) throw DataError("{}: found no record of a workload in {}", files.front(), dags);
  return rankings;
}

/// Programs of save_json text, a ranking a workload in the order of the first programs; ids are those of the records.
/// What cannot be scored is last, with +infinity. `member`: as in read_tir_groups.
std::vector<inference::Ranking> rank_tir(const inference::Model& model, const std::string& file,
                                         const std::string& member) {
  Workloads workloads;
  read_texts(file, member, workloads);
  std::vector<inference::Ranking> rankings;
  for (auto& workload : workloads.all()) {
    const auto scores = inference::score_tir(model, views(workload.texts));
    rankings.push_back(ranking_of(model, std::move(workload), scores, 0.0));
  }
  return rankings;
}

using configs::SettingsError;
using data::CandidateKind;
using ModelPtr = std::shared_ptr<const inference::Model>;

void check(const RankArguments& arguments, const inference::Model& model) {
  const bool programs = model.spec().kind == CandidateKind::program;
  const auto kind = inference::kind_name(model.kind());
  if (!arguments.ensemble.empty())
    throw SettingsError("--ensemble: only for checkpoints; a bundle already joins its members");
  if (!arguments.candidates.empty() && programs)
    throw SettingsError("--candidates needs a layout or tile model; {} is a model of {}", arguments.model, kind);
  if (!arguments.candidates.empty() && arguments.files.size() != 1)
    throw SettingsError("--candidates: found {} graph files, expected one", arguments.files.size());
  if (!arguments.dags.empty() && model.kind() != inference::ModelKind::loops)
    throw SettingsError("--dags needs a model of loop programs; {} is a model of {}", arguments.model, kind);
  if (!arguments.targets.empty() && model.kind() != inference::ModelKind::loops)
    throw SettingsError("--targets needs a model of loop programs; {} is a model of {}", arguments.model, kind);
  if (!arguments.member.empty() && !programs)
    throw SettingsError("--member needs a model of programs; {} is a model of {}", arguments.model, kind);
}

/// The one graph of a file, and the names of its nodes where it has any.
data::Group read_graph(const inference::Model& model, const std::string& file, data::NodeNames& names) {
  if (!data::is_hlo_file(file)) {
    const auto headers = inference::list_groups(model, {file});
    if (headers.size() != 1)
      throw DataError("{}: found {} graphs, expected the one whose candidates are ranked", file, headers.size());
    return data::load_group(headers.front());
  }
  const data::HloFile hlo(file);
  names = data::NodeNames(hlo);
  auto group = data::read_hlo_graph(hlo, hlo.modules().front(), model.spec().kind);
  group.collection = data::collection_named(data::collection_in(file));
  return group;
}

void rank_candidates(const ModelPtr& model, const RankArguments& arguments, RankOutput& output) {
  data::NodeNames names;
  const auto& file = arguments.files.front();
  auto group = read_graph(*model, file, names);
  const auto name = group.name;
  const auto collection = data::collection_in(file);
  const inference::GraphScorer scorer(model, std::move(group));
  const data::CandidateSchema schema{
      .kind = model->spec().kind, .configurable = scorer.configurable(), .names = &names};
  const auto candidates = data::read_candidates_file(arguments.candidates, schema);
  const auto scores = schema.kind == CandidateKind::layout ? scorer.score_layouts(candidates.layouts, candidates.count)
                                                           : scorer.score_tiles(candidates.tiles, candidates.count);
  output.add(ranking_of(*model, name, scores, {}, candidates.ids), collection, file);
}

void rank_files(const ModelPtr& model, const RankArguments& arguments, RankOutput& output) {
  const bool programs = model->spec().kind == CandidateKind::program;
  std::vector<std::string> graphs, records, texts;
  for (const auto& file : named_files(arguments.files)) {
    const auto form = programs ? data::form_of(file) : data::FileForm::unknown;
    auto& kind = form == data::FileForm::save_json ? texts : form == data::FileForm::records ? records : graphs;
    kind.push_back(file);
  }
  if (!arguments.targets.empty() && !(graphs.empty() && texts.empty()))
    throw SettingsError("--targets needs tuning records, which name their machine; {} holds {}",
                        texts.empty() ? graphs.front() : texts.front(),
                        texts.empty() ? "graphs, which were made for one"
                                      : "save_json text, which is scored for the bundle's data.hardware");
  if (!graphs.empty())
    rank_groups(inference::list_groups(*model, graphs), output, [&](const auto&, const data::Group& group) {
      std::vector<int64_t> all(group.candidates);
      std::iota(all.begin(), all.end(), 0);
      std::vector<float> failures;
      const auto scores = model->score_group(group, all, &failures);
      auto ranking = ranking_of(*model, group.name, scores, group.flops.span(), group.candidate_ids);
      ranking.failures.assign(failures.begin(), failures.end());
      return ranking;
    });
  size_t scored = 0, unscored = 0;
  const auto add = [&](const std::vector<inference::Ranking>& rankings, const std::string& origin) {
    for (const auto& ranking : rankings) {
      for (const float score : ranking.scores) ++(std::isfinite(score) ? scored : unscored);
      output.add(ranking, "", origin);
    }
  };
  if (!records.empty()) add(rank_records(model, records, arguments), records.front());
  for (const auto& file : texts) add(rank_tir(*model, file, arguments.member), file);
  if (graphs.empty() && scored == 0)
    throw DataError("{}: none of {} programs can be scored", arguments.files.front(), unscored);
}

inference::Options options_of(const RankArguments& arguments) {
  return {.threads = static_cast<int32_t>(threads_to_use(arguments.threads.value_or(0)))};
}

void rank_by(const ModelPtr& model, const RankArguments& arguments) {
  check(arguments, *model);
  const bool listed = !arguments.candidates.empty();
  RankOutput output(arguments, arguments.format.empty() ? (listed ? "json" : "csv") : arguments.format);
  listed ? rank_candidates(model, arguments, output) : rank_files(model, arguments, output);
  output.write();
}

}  // namespace

bool needs_bundle(const RankArguments& arguments) {
  if (!arguments.candidates.empty() || !arguments.dags.empty() || !arguments.member.empty() ||
      !arguments.targets.empty())
    return true;
  return std::ranges::any_of(arguments.files, [](const auto& file) {
    const auto form = data::form_of(file);
    return form == data::FileForm::save_json || form == data::FileForm::records;
  });
}

void rank_bundle(const RankArguments& arguments) {
  if (!arguments.targets.empty()) return rank_bundle(inference::read_bundle(arguments.model), arguments);
  rank_by(inference::Model::open(arguments.model, options_of(arguments)), arguments);
}

void rank_bundle(inference::Bundle bundle, const RankArguments& arguments) {
  inference::add_machines(bundle, data::read_machines(arguments.targets, ""));
  rank_by(std::make_shared<const inference::Model>(std::move(bundle), options_of(arguments)), arguments);
}

}  // namespace foretime::cli
