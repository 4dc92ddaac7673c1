#include "cli/rank_programs.h"

#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "configs/load.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/records/record_json.h"
#include "data/frontends/loops/nest_program.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/scoring/program_scorer.h"

namespace foretime::cli {
namespace {

/// Things that went wrong, of which the first is told.
struct Complaints {
  int64_t count = 0;
  std::string first;

  void add(std::string what) {
    if (count++ == 0) first = std::move(what);
  }
  /// `file: 3 lines left out, the first: …`
  void tell(const std::string& origin, const char* what) const {
    if (count > 0) fmt::print(stderr, "foretime: {}: {} {}, the first: {}\n", origin, count, what, first);
  }
};

/// Texts of one workload, in the order of the files.
struct Workload {
  std::string key, name = {};
  std::vector<std::string> texts = {}, ids = {};
};

class Workloads {
 public:
  Workload& of(const std::string& key) {
    const auto [place, fresh] = places_.try_emplace(key, all_.size());
    if (fresh) all_.push_back({.key = key});
    return all_[place->second];
  }
  std::vector<Workload>& all() { return all_; }

 private:
  std::unordered_map<std::string, size_t> places_;
  std::vector<Workload> all_;
};

/// The lines of a file of compute DAGs by their workloads.
class DagLines {
 public:
  explicit DagLines(const std::filesystem::path& file) {
    data::LineSource lines(file);
    while (const auto line = lines.next()) {
      if (line->text.empty() || line->text[0] == '#') continue;
      try {
        if (line->too_long) throw DataError("longer than expected of a compute DAG");
        auto dag = std::make_shared<const data::ComputeDag>(data::parse_compute_dag(line->text));
        table_.add(dag);
        lines_.emplace(dag->workload_key, line->text);
      } catch (const DataError& error) {
        throw DataError(fmt::format("{}:{}: {}", file.string(), lines.line_number(), error.what()));
      }
    }
    if (lines_.empty()) throw DataError(fmt::format("{}: no line, expected compute DAGs", file.string()));
  }

  /// Null where there is none.
  const std::string* find(const std::string& key) const {
    const auto dag = table_.find(key);
    return dag == nullptr ? nullptr : &lines_.at(dag->workload_key);
  }

 private:
  data::DagTable table_;
  std::map<std::string, std::string> lines_;
};

/// Without quotes and blanks, as data::index_records names groups.
std::string plain_key(const std::string& key) {
  std::string name;
  for (const char c : key) {
    if (c != '"' && c != ' ') name += c;
  }
  return name;
}

void read_records(const std::string& file, bool several, Workloads& workloads) {
  data::LineSource lines(file);
  data::ScheduleParser parser;
  data::TuningRecord record;
  Complaints complaints;
  auto stem = std::filesystem::path(file).filename().string();
  stem.resize(std::min(stem.size(), stem.find('.')));
  while (const auto line = lines.next()) {
    if (line->text.empty() || line->text[0] == '#' || line->text[0] == ' ') continue;
    try {
      if (line->too_long) throw DataError("longer than a record may be");
      parser.parse(line->text, record);
    } catch (const DataError& error) {
      complaints.add(fmt::format("line {}: {}", lines.line_number(), error.what()));
      continue;
    }
    auto& workload = workloads.of(record.workload_key);
    workload.texts.emplace_back(line->text);
    workload.ids.push_back(several ? fmt::format("{}:{}", stem, lines.line_number() - 1)
                                   : std::to_string(lines.line_number() - 1));
  }
  complaints.tell(file, "lines left out");
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

inference::Ranking ranking_of(const inference::Model& model, Workload&& workload,
                              const inference::ProgramScores& result, double operations) {
  inference::Ranking ranking{.group = std::move(workload.name)};
  ranking.candidates.resize(result.scores.size());
  std::iota(ranking.candidates.begin(), ranking.candidates.end(), 0);
  ranking.scores.assign(result.scores.begin(), result.scores.end());
  const std::vector<double> flops(operations > 0.0 ? result.scores.size() : 0, operations);
  ranking.predicted = predicted_runtimes(model, result.scores, flops);
  ranking.ids = std::move(workload.ids);
  if (result.failed > 0)
    fmt::print(stderr, "foretime: {}: {} of {} programs not scored, the first: program {}\n", ranking.group,
               result.failed, result.scores.size(), result.first_failure);
  return ranking;
}

}  // namespace

std::vector<inference::Ranking> rank_records(const std::shared_ptr<const inference::Model>& model,
                                             const std::vector<std::string>& files, const std::string& dags) {
  if (dags.empty())
    throw configs::SettingsError(
        fmt::format("{}: tuning records, which name schedules and no programs; give --dags FILE, the compute DAGs "
                    "of their workloads (docs/explanations/schedules.md)",
                    files.front()));
  const DagLines table(dags);
  Workloads workloads;
  for (const auto& file : files) read_records(file, files.size() > 1, workloads);
  Complaints missing;
  std::vector<inference::Ranking> rankings;
  for (auto& workload : workloads.all()) {
    const auto* line = table.find(workload.key);
    if (line == nullptr) {
      missing.add(workload.key);
      continue;
    }
    workload.name = plain_key(workload.key);
    const inference::WorkloadScorer scorer(model, *line);
    const auto scores = scorer.score(views(workload.texts));
    rankings.push_back(ranking_of(*model, std::move(workload), scores, data::operations_of(scorer.dag())));
  }
  missing.tell(dags, "workloads of the records are not in it");
  if (rankings.empty()) throw DataError(fmt::format("{}: no record of a workload that {} has", files.front(), dags));
  return rankings;
}

std::vector<inference::Ranking> rank_tir(const inference::Model& model, const std::string& file,
                                         const std::string& member) {
  data::TirFile source(file);
  data::TirRecord record;
  Workloads workloads;
  while (source.next(record)) {
    const auto stem = std::filesystem::path(file).stem().stem().string();
    auto& workload = workloads.of(record.workload.empty() ? stem : record.workload);
    workload.name = workload.key;
    workload.texts.push_back(data::choose_text(record, member, fmt::format("{}: {}", file, record.id)));
    workload.ids.push_back(record.id);
  }
  if (workloads.all().empty()) throw DataError(fmt::format("{}: no programs", file));
  std::vector<inference::Ranking> rankings;
  for (auto& workload : workloads.all()) {
    const auto scores = inference::score_tir(model, views(workload.texts));
    rankings.push_back(ranking_of(model, std::move(workload), scores, 0.0));
  }
  return rankings;
}

std::vector<double> predicted_runtimes(const inference::Model& model, std::span<const float> scores,
                                       std::span<const double> flops) {
  const auto& terms = model.terms();
  const bool needs_flops = terms.targets.kind == inference::Targets::Kind::log_runtime_per_flop;
  if (!terms.predicts_runtimes || (needs_flops && flops.empty())) return {};
  return model.runtimes(scores, flops);
}

}  // namespace foretime::cli
