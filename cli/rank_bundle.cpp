#include <future>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/threads.h"
#include "cli/rank_command.h"
#include "cli/rank_programs.h"
#include "configs/load.h"
#include "data/dataset/group_files.h"
#include "data/frontends/ansor/features/record_report.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/candidates/candidates_file.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/group_headers.h"
#include "inference/scoring/model.h"

namespace foretime::cli {
namespace {

using configs::SettingsError;
using data::CandidateKind;
using ModelPtr = std::shared_ptr<const inference::Model>;

void check(const RankArguments& arguments, const inference::Model& model) {
  const bool programs = model.terms().kind == CandidateKind::program;
  const auto kind = inference::kind_name(model.kind());
  if (!arguments.ensemble.empty()) throw SettingsError("--ensemble joins checkpoints; a bundle ranks alone");
  if (!arguments.candidates.empty() && programs)
    throw SettingsError(
        fmt::format("--candidates: of layout and tile models; {} is of kind {}", arguments.model, kind));
  if (!arguments.candidates.empty() && arguments.files.size() != 1)
    throw SettingsError(fmt::format("--candidates: {} graph files, expected one", arguments.files.size()));
  if (!arguments.dags.empty() && model.kind() != inference::ModelKind::loops)
    throw SettingsError(fmt::format("--dags: of models of loop programs; {} is of kind {}", arguments.model, kind));
  if (!arguments.member.empty() && !programs)
    throw SettingsError(fmt::format("--member: of models of programs; {} is of kind {}", arguments.model, kind));
}

inference::Ranking ranking_of(const inference::Model& model, std::string group, std::span<const float> scores,
                              std::span<const double> flops) {
  inference::Ranking ranking{.group = std::move(group)};
  ranking.candidates.resize(scores.size());
  std::iota(ranking.candidates.begin(), ranking.candidates.end(), 0);
  ranking.scores.assign(scores.begin(), scores.end());
  ranking.predicted = predicted_runtimes(model, scores, flops);
  return ranking;
}

void rank_groups(const inference::Model& model, const std::vector<std::string>& files, RankOutput& output) {
  const auto headers = inference::list_groups(model, files);
  // The next group is read while one is scored, and no more than two are in memory.
  const auto read = [&](size_t i) {
    return std::async(std::launch::async, [&headers, i] { return data::load_group(headers[i]); });
  };
  auto next = headers.empty() ? std::future<data::Group>() : read(0);
  for (size_t i = 0; i < headers.size(); ++i) {
    const auto& header = headers[i];
    const auto group = next.get();
    if (i + 1 < headers.size()) next = read(i + 1);
    auto ranking = ranking_of(model, group.name, model.score_group(group), group.flops.span());
    ranking.ids = group.candidate_ids;
    auto collection = data::to_string(header.collection);
    if (collection.empty()) collection = data::collection_in(header.file);
    output.add(ranking, collection, header.file.string());
  }
}

/// The one graph of a file, and the names of its nodes where it has any.
data::Group read_graph(const inference::Model& model, const std::string& file, inference::NodeNames& names) {
  if (!data::is_hlo_file(file)) {
    const auto headers = inference::list_groups(model, {file});
    if (headers.size() != 1)
      throw DataError(fmt::format("{}: {} graphs, expected one whose candidates are ranked", file, headers.size()));
    return data::load_group(headers.front());
  }
  const data::HloFile hlo(file);
  names = inference::NodeNames(hlo);
  auto group = data::read_hlo_graph(hlo, hlo.modules().front(), model.terms().kind);
  group.collection = data::collection_named(data::collection_in(file));
  return group;
}

void rank_candidates(const ModelPtr& model, const RankArguments& arguments, RankOutput& output) {
  inference::NodeNames names;
  const auto& file = arguments.files.front();
  auto group = read_graph(*model, file, names);
  const auto name = group.name;
  const auto collection = data::collection_in(file);
  const inference::GraphScorer scorer(model, std::move(group));
  const inference::CandidateTerms terms{
      .kind = model->terms().kind, .configurable = scorer.configurable(), .names = &names};
  const auto candidates = inference::read_candidates_file(arguments.candidates, terms);
  const auto scores = terms.kind == CandidateKind::layout ? scorer.score_layouts(candidates.layouts, candidates.count)
                                                          : scorer.score_tiles(candidates.tiles, candidates.count);
  auto ranking = ranking_of(*model, name, scores, {});
  ranking.ids = candidates.ids;
  output.add(ranking, collection, file);
}

void rank_files(const ModelPtr& model, const RankArguments& arguments, RankOutput& output) {
  const bool programs = model->terms().kind == CandidateKind::program;
  std::vector<std::string> graphs, records, texts;
  for (const auto& file : arguments.files) {
    auto& kind = programs && data::is_tir_text(file)                                                ? texts
                 : programs && std::filesystem::is_regular_file(file) && data::is_record_file(file) ? records
                                                                                                    : graphs;
    kind.push_back(file);
  }
  if (!graphs.empty()) rank_groups(*model, graphs, output);
  const auto add = [&](const std::vector<inference::Ranking>& rankings, const std::string& origin) {
    for (const auto& ranking : rankings) output.add(ranking, "", origin);
  };
  if (!records.empty()) add(rank_records(model, records, arguments.dags), records.front());
  for (const auto& file : texts) add(rank_tir(*model, file, arguments.member), file);
}

}  // namespace

void rank_bundle(const RankArguments& arguments) {
  const inference::Options options{.threads = static_cast<int32_t>(threads_to_use(arguments.threads))};
  const auto model = inference::Model::open(arguments.model, options);
  check(arguments, *model);
  const bool listed = !arguments.candidates.empty();
  RankOutput output(arguments, arguments.format.empty() ? (listed ? "json" : "csv") : arguments.format);
  listed ? rank_candidates(model, arguments, output) : rank_files(model, arguments, output);
  output.write();
}

}  // namespace foretime::cli
