#include "cli/select_tasks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "base/counter_random.h"
#include "base/error.h"
#include "base/message.h"
#include "configs/load.h"
#include "data/dataset/group_files.h"
#include "data/files/file_form.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/program_scorer.h"

namespace foretime::cli {
namespace {

using configs::SettingsError;
using inference::EmbeddingModel;
using inference::Matrix;

/// Counts skipped candidates, summed over all tasks.
struct Skipped {
  Warnings failed, without_dag;
  int64_t repeated = 0, measured_already = 0;

  void print(const std::string& origin, const std::string& dags) const {
    without_dag.print(dags, "workloads of the records are not in it");
    failed.print(origin, "candidates not scored");
    if (repeated > 0) print_message("foretime: {}: skipped {} duplicate candidates\n", origin, repeated);
    if (measured_already > 0)
      print_message("foretime: {}: skipped {} candidates that are already measured\n", origin, measured_already);
  }
};

Matrix rows_of(const Matrix& all, const std::vector<int64_t>& rows) {
  Matrix some{std::ssize(rows), all.columns, {}};
  some.values.resize(some.size());
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(all.row(rows[i]), all.columns, some.row(static_cast<int64_t>(i)));
  return some;
}

/// Returns the part of a text that identifies its schedule: the steps of a record, without workload, machine and
/// measurement; the whole of any other text.
class ScheduleReader {
 public:
  explicit ScheduleReader(bool records) : records_(records) {}

  std::string schedule_of(const std::string& text) {
    simdjson::dom::element steps;
    const bool found = records_ && parser_.parse(text).at_key("i").at(1).get(steps) == simdjson::SUCCESS;
    return found ? simdjson::minify(steps) : text;
  }

 private:
  bool records_;
  simdjson::dom::parser parser_;
};

/// The texts of a task that are scored: distinct candidates, then what is measured.
struct TaskTexts {
  std::vector<std::string_view> texts;
  std::vector<SourceLine> places;  // [texts]
  std::vector<int64_t> numbers;    // [candidates] number in the workload
};

TaskTexts distinct_texts(const Workload& workload, const Workload& measured, bool records, Skipped& skipped) {
  ScheduleReader reader(records);
  std::unordered_set<std::string> known, own;
  std::vector<size_t> distinct;
  for (size_t i = 0; i < measured.texts.size(); ++i) {
    if (known.insert(reader.schedule_of(measured.texts[i])).second) distinct.push_back(i);
  }
  TaskTexts result;
  for (size_t i = 0; i < workload.texts.size(); ++i) {
    auto schedule = reader.schedule_of(workload.texts[i]);
    if (known.contains(schedule)) {
      ++skipped.measured_already;
    } else if (!own.insert(std::move(schedule)).second) {
      ++skipped.repeated;
    } else {
      result.texts.emplace_back(workload.texts[i]);
      result.places.push_back(workload.places[i]);
      result.numbers.push_back(i);
    }
  }
  for (const size_t i : distinct) {
    result.texts.emplace_back(measured.texts[i]);
    result.places.push_back(measured.places[i]);
  }
  return result;
}

/// Makes tasks, one after another.
class TaskMaker {
 public:
  TaskMaker(const std::vector<EmbeddingModel>& models, const SelectArguments& arguments, bool points)
      : models_(models), arguments_(arguments), points_(points) {}

  void add_records(const std::vector<std::string>& files, const std::vector<std::string>& measured_files) {
    expect_dags(arguments_.dags, files.front());
    const data::DagTable table(arguments_.dags);
    Workloads workloads, measured;
    const auto names = data::record_file_names({files.begin(), files.end()});
    for (size_t f = 0; f < files.size(); ++f) read_records(files[f], files.size() > 1 ? names[f] : "", workloads);
    for (const auto& file : measured_files) read_records(file, "", measured);
    UnknownMachines unknown;
    for (const auto& workload : workloads.all()) {
      const auto* line = table.find_line(workload.key);
      if (line == nullptr) {
        skipped_.without_dag.add(workload.key);
        continue;
      }
      for (const auto& model : models_) unknown.add(model.model()->spec().machines, workload);
      add_texts(workload, measured.of(workload.key), true,
                [&](const EmbeddingModel& model, const auto& texts, Matrix& rows) {
                  return inference::WorkloadScorer(model.model(), *line).score(texts, &rows);
                });
    }
    unknown.print(files.front(), "and add them to the bundle (foretime bundle add-machine)");
  }

  void add_programs(const std::vector<std::string>& files, const std::vector<std::string>& measured_files) {
    Workloads workloads, measured;
    for (const auto& file : files) read_texts(file, arguments_.member, workloads);
    for (const auto& file : measured_files) read_texts(file, arguments_.member, measured);
    for (const auto& workload : workloads.all()) {
      add_texts(workload, measured.of(workload.key), false,
                [](const EmbeddingModel& model, const auto& texts, Matrix& rows) {
                  return inference::score_tir(*model.model(), texts, &rows);
                });
    }
  }

  void add_graphs(const std::vector<std::string>& files, const std::vector<std::string>& measured_files) {
    const auto& model = *models_.front().model();
    std::map<std::string, data::GroupHeader> known;
    if (!measured_files.empty()) {
      for (const auto& header : inference::list_groups(model, measured_files)) known.emplace(header.name, header);
    }
    for (const auto& header : inference::list_groups(model, files)) {
      const auto group = data::load_group(header);
      const auto found = known.find(header.name);
      add_graph(header.file.string(), group, found == known.end() ? data::Group() : data::load_group(found->second));
    }
  }

  std::vector<SelectTask> finish() && {
    skipped_.print(arguments_.files.front(), arguments_.dags);
    if (tasks_.empty())
      throw DataError("{}: {}", arguments_.files.front(),
                      skipped_.measured_already > 0 && skipped_.failed.count == 0
                          ? "found no unmeasured candidate"
                          : "found found no candidate that the model can score");
    return std::move(tasks_);
  }

 private:
  /// `score`: of texts, with what the model embeds.
  template <class Score>
  void add_texts(const Workload& workload, const Workload& measured, bool records, Score&& score) {
    const auto distinct = distinct_texts(workload, measured, records, skipped_);
    std::vector<Matrix> embedded(models_.size());
    std::vector<std::vector<float>> scores;
    for (size_t m = 0; m < models_.size(); ++m) {
      auto result = score(models_[m], distinct.texts, embedded[m]);
      if (m == 0 && result.failed > 0) {
        auto& failed = skipped_.failed;
        if (failed.count == 0)
          failed.first =
              fmt::format("{}: {}", to_string(distinct.places[result.first_failed_index]), result.first_reason);
        failed.count += result.failed;
      }
      scores.push_back(std::move(result.scores));
    }
    SelectTask task{.name = workload.name};
    std::vector<int64_t> rows;
    for (size_t i = 0; i < distinct.texts.size(); ++i) {
      if (std::isinf(scores.front()[i]) || !is_scored(scores, i, distinct.places[i])) continue;
      rows.push_back(i);
      if (i >= distinct.numbers.size()) {
        ++task.measured;
        continue;
      }
      const size_t number = distinct.numbers[i];
      task.numbers.push_back(distinct.numbers[i]);
      task.ids.push_back(workload.ids[number]);
      task.places.push_back(distinct.places[i]);
      task.scores.push_back(scores.front()[i]);
    }
    finish(std::move(task), embedded, rows);
  }

  /// `measured`: candidates of the same group that are measured already, or none.
  void add_graph(const std::string& file, const data::Group& group, const data::Group& measured) {
    std::vector<Matrix> embedded(models_.size());
    std::vector<std::vector<float>> scores;
    for (size_t m = 0; m < models_.size(); ++m) {
      const auto& model = *models_[m].model();
      auto& of_model = scores.emplace_back(inference::score_group_with_rows(model, group, embedded[m]));
      if (measured.candidates == 0) continue;
      Matrix more;
      const auto of_measured = inference::score_group_with_rows(model, measured, more);
      of_model.insert(of_model.end(), of_measured.begin(), of_measured.end());
      embedded[m].values.resize(embedded[m].size());
      embedded[m].values.insert(embedded[m].values.end(), more.values.begin(), more.values.begin() + more.size());
      embedded[m].rows += more.rows;
    }
    SelectTask task{.name = group.name};
    std::vector<int64_t> rows, known_rows;
    std::unordered_set<uint64_t> known, own;
    const SourceLine place{file, 0};
    const auto measured_hashes =
        measured.candidates > 0 ? data::configuration_hashes(measured) : std::vector<uint64_t>();
    for (size_t i = 0; i < measured_hashes.size(); ++i) {
      const auto row = group.candidates + i;
      if (known.insert(measured_hashes[i]).second && is_scored(scores, row, place)) known_rows.push_back(row);
    }
    task.measured = known_rows.size();
    const auto hashes = data::configuration_hashes(group);
    for (size_t i = 0; i < hashes.size(); ++i) {
      if (known.contains(hashes[i])) {
        ++skipped_.measured_already;
      } else if (!own.insert(hashes[i]).second) {
        ++skipped_.repeated;
      } else if (is_scored(scores, i, place)) {
        rows.push_back(i);
        task.numbers.push_back(rows.back());
        task.ids.push_back(group.candidate_ids.empty() ? "" : group.candidate_ids[i]);
        task.places.push_back(place);
        task.scores.push_back(scores.front()[i]);
      }
    }
    rows.insert(rows.end(), known_rows.begin(), known_rows.end());
    finish(std::move(task), embedded, rows);
  }

  bool is_scored(const std::vector<std::vector<float>>& scores, size_t i, const SourceLine& place) {
    const bool scored = std::ranges::all_of(scores, [&](const auto& of_model) { return std::isfinite(of_model[i]); });
    if (!scored) skipped_.failed.add(fmt::format("{}: a score that is no finite number", to_string(place)));
    return scored;
  }

  /// Makes the pool of a task: `rows` of what each model embeds, of candidates, then of what is measured.
  void finish(SelectTask task, const std::vector<Matrix>& embedded, const std::vector<int64_t>& rows) {
    auto& pool = task.pool;
    pool.candidates = task.numbers.size();
    if (pool.candidates == 0) return;
    std::vector<std::vector<float>> scores;
    std::vector<Matrix> blocks;
    for (size_t m = 0; m < models_.size(); ++m) {
      const auto chosen = rows_of(embedded[m], rows);
      for (auto& of_member : models_[m].member_scores(chosen)) scores.push_back(std::move(of_member));
      if (!points_) continue;
      for (auto& block : models_[m].hidden_states(chosen)) blocks.push_back(std::move(block));
    }
    if (points_) pool.points = inference::points_of(blocks);
    if (scores.size() > 1) {
      pool.uncertainty = inference::disagreement(scores);
      pool.uncertainty.resize(pool.candidates);
    }
    constexpr uint64_t kStream = 62;  // beside those of base/counter_random.h
    pool.key = random_bits({arguments_.seed, kStream, hash_text(task.name)});
    tasks_.push_back(std::move(task));
  }

  const std::vector<EmbeddingModel>& models_;
  const SelectArguments& arguments_;
  bool points_;
  Skipped skipped_;
  std::vector<SelectTask> tasks_;
};

/// Files by what they hold.
struct FileKinds {
  std::vector<std::string> graphs, records, texts;

  FileKinds(const std::vector<std::string>& files, bool programs) {
    for (const auto& file : files) {
      const auto form = programs ? data::form_of(file) : data::FileForm::unknown;
      auto& kind = form == data::FileForm::save_json ? texts : form == data::FileForm::records ? records : graphs;
      kind.push_back(file);
    }
  }
};

}  // namespace

std::vector<SelectTask> read_tasks(const std::vector<EmbeddingModel>& models, const SelectArguments& arguments,
                                   bool points) {
  const bool programs = models.front().model()->spec().kind == data::CandidateKind::program;
  const FileKinds files(arguments.files, programs), measured(arguments.measured, programs);
  if (files.graphs.empty() && !measured.graphs.empty())
    throw SettingsError("--measured: {} holds neither tuning records nor save_json text, but the candidates do",
                        measured.graphs.front());
  if (!measured.graphs.empty() && models.front().model()->kind() == inference::ModelKind::layout)
    throw SettingsError(
        "--measured: only for programs and tiles; {} is a model of layouts, and layouts of two files are not "
        "compared: remove the measured candidates from the files",
        arguments.model);
  if (files.records.empty() && !measured.records.empty())
    throw SettingsError("--measured: {} holds tuning records, but the candidates are not records",
                        measured.records.front());
  if (files.texts.empty() && !measured.texts.empty())
    throw SettingsError("--measured: {} holds save_json text, but the candidates are not texts",
                        measured.texts.front());
  if (!arguments.output.empty() && !files.graphs.empty())
    throw SettingsError(
        "--output: writes lines of records or texts, but {} has none; the table on standard output lists the chosen "
        "candidates",
        files.graphs.front());
  TaskMaker tasks(models, arguments, points);
  if (!files.records.empty()) tasks.add_records(files.records, measured.records);
  if (!files.texts.empty()) tasks.add_programs(files.texts, measured.texts);
  if (!files.graphs.empty()) tasks.add_graphs(files.graphs, measured.graphs);
  return std::move(tasks).finish();
}

}  // namespace foretime::cli
