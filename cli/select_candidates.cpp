#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/error.h"
#include "base/output_target.h"
#include "base/threads.h"
#include "cli/rank_command.h"
#include "cli/select_command.h"
#include "cli/select_tasks.h"
#include "configs/load.h"
#include "data/files/line_source.h"
#include "inference/selection/choose.h"

namespace foretime::cli {
namespace {

using configs::SettingsError;
using inference::SelectionMethod;

bool needs_uncertainty(SelectionMethod method) {
  return method == SelectionMethod::uncertain || method == SelectionMethod::mixed;
}
bool needs_points(SelectionMethod method) {
  return method != SelectionMethod::uncertain && method != SelectionMethod::random;
}

std::vector<inference::EmbeddingModel> open(std::vector<inference::Bundle> bundles, const SelectArguments& arguments) {
  const inference::Options options{.threads = static_cast<int32_t>(threads_to_use(arguments.threads.value_or(0)))};
  std::vector<inference::EmbeddingModel> models;
  for (auto& bundle : bundles) models.emplace_back(std::move(bundle), options);
  const auto kind = [&](size_t i) { return inference::kind_name(models[i].model()->kind()); };
  for (size_t i = 1; i < models.size(); ++i) {
    const auto &first = models.front().model()->spec(), &other = models[i].model()->spec();
    if (models[i].model()->kind() != models.front().model()->kind())
      throw SettingsError("--ensemble: {} is of kind {}, expected {} as {} is", arguments.ensemble[i - 1], kind(i),
                          kind(0), arguments.model);
    if (other.feature_count != first.feature_count || other.columns != first.columns)
      throw SettingsError("--ensemble: {} has other columns than {}", arguments.ensemble[i - 1], arguments.model);
  }
  const bool programs = models.front().model()->spec().kind == data::CandidateKind::program;
  if (!arguments.dags.empty() && models.front().model()->kind() != inference::ModelKind::loops)
    throw SettingsError("--dags needs a model of loop programs; {} is a model of {}", arguments.model, kind(0));
  if (!arguments.member.empty() && !programs)
    throw SettingsError("--member needs a model of programs; {} is a model of {}", arguments.model, kind(0));
  return models;
}

void check_method(SelectionMethod method, const std::vector<inference::EmbeddingModel>& models,
                  const SelectArguments& arguments) {
  size_t members = 0;
  for (const auto& model : models) members += model.members();
  if (needs_uncertainty(method) && members < 2)
    throw SettingsError(
        "--method {}: needs several models, and {} is one; give another with --ensemble, train with "
        "model.ensemble_size: 3, or take --method representative",
        arguments.method, arguments.model);
  if (needs_points(method) && std::ranges::any_of(models, [](const auto& model) { return !model.has_hidden_states(); }))
    throw SettingsError("--method {}: the model has no known hidden states, expected --method {} or random",
                        arguments.method, members < 2 ? "uncertain with --ensemble" : "uncertain");
}

/// Returns the chosen rows of each task.
std::vector<std::vector<int64_t>> choose(SelectionMethod method, const std::vector<SelectTask>& tasks,
                                         const SelectArguments& arguments) {
  std::vector<int64_t> sizes;
  for (const auto& task : tasks) sizes.push_back(task.pool.candidates);
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (arguments.number > all)
    throw DataError("--number {}: found only {} candidates in {} tasks; give at most this number", arguments.number,
                    all, tasks.size());
  const auto shares = inference::equal_shares(sizes, arguments.number);
  std::vector<std::vector<int64_t>> chosen;
  for (size_t t = 0; t < tasks.size(); ++t) chosen.push_back(inference::choose(method, tasks[t].pool, shares[t]));
  return chosen;
}

std::string as_csv(const std::vector<SelectTask>& tasks, const std::vector<std::vector<int64_t>>& chosen) {
  std::string text = "group,choice,candidate,id,file,line,score,uncertainty\n";
  for (size_t t = 0; t < tasks.size(); ++t) {
    const auto& task = tasks[t];
    for (size_t choice = 0; choice < chosen[t].size(); ++choice) {
      const size_t row = chosen[t][choice];
      const auto& uncertainty = task.pool.uncertainty;
      text += fmt::format("{},{},{},{},{},{},{},{}\n", spreadsheet_field(task.name), choice, task.numbers[row],
                          spreadsheet_field(task.ids[row]), spreadsheet_field(task.places[row].file),
                          task.places[row].line > 0 ? std::to_string(task.places[row].line) : "", task.scores[row],
                          uncertainty.empty() ? "" : fmt::format("{}", uncertainty[row]));
    }
  }
  return text;
}

std::string as_json(const std::vector<SelectTask>& tasks, const std::vector<std::vector<int64_t>>& chosen,
                    const SelectArguments& arguments) {
  auto list = nlohmann::json::array();
  for (size_t t = 0; t < tasks.size(); ++t) {
    const auto& task = tasks[t];
    auto choices = nlohmann::json::array();
    for (const int64_t choice : chosen[t]) {
      const size_t row = choice;
      nlohmann::json item = {
          {"candidate", task.numbers[row]}, {"file", task.places[row].file}, {"score", task.scores[row]}};
      if (!task.ids[row].empty()) item["id"] = task.ids[row];
      if (task.places[row].line > 0) item["line"] = task.places[row].line;
      if (!task.pool.uncertainty.empty()) item["uncertainty"] = task.pool.uncertainty[row];
      choices.push_back(std::move(item));
    }
    list.push_back({{"group", task.name},
                    {"candidates", task.pool.candidates},
                    {"measured", task.measured},
                    {"chosen", std::move(choices)}});
  }
  const nlohmann::json answer = {
      {"method", arguments.method}, {"number", arguments.number}, {"tasks", std::move(list)}};
  return answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Returns the chosen lines unchanged, file by file in the given order.
std::string chosen_lines(const std::vector<SelectTask>& tasks, const std::vector<std::vector<int64_t>>& chosen,
                         const SelectArguments& arguments) {
  constexpr size_t kLongestLine = size_t{1} << 28;  // save_json text
  std::map<std::string, std::set<int64_t>> lines_of;
  for (size_t t = 0; t < tasks.size(); ++t) {
    for (const int64_t row : chosen[t]) {
      const auto& place = tasks[t].places[row];
      if (place.line < 1)
        throw SettingsError(
            "--output: writes lines of records or texts, but {} has none; the table on standard output lists the "
            "chosen candidates",
            place.file);
      lines_of[place.file].insert(place.line);
    }
  }
  std::string text;
  for (const auto& file : arguments.files) {
    auto lines = std::move(lines_of[file]);
    lines_of[file].clear();
    data::LineSource source(file, kLongestLine);
    while (!lines.empty()) {
      const auto line = source.next();
      if (!line) throw DataError("{}: ended before line {}, which it had before", file, *lines.begin());
      if (source.line_number() != *lines.begin()) continue;
      lines.erase(lines.begin());
      text.append(line->text).push_back('\n');
    }
  }
  return text;
}

}  // namespace

void select_candidates(std::vector<inference::Bundle> bundles, const SelectArguments& given) {
  auto arguments = given;
  arguments.files = named_files(given.files);
  arguments.measured = named_files(given.measured);
  std::vector<std::filesystem::path> inputs(arguments.files.begin(), arguments.files.end());
  inputs.insert(inputs.end(), arguments.measured.begin(), arguments.measured.end());
  if (!arguments.output.empty())
    expect_replaceable("--output", arguments.output, FileKind::unmarked, arguments.force, inputs);
  const auto method = *configs::choice_named<SelectionMethod>(arguments.method);
  const auto models = open(std::move(bundles), arguments);
  check_method(method, models, arguments);
  const auto tasks = read_tasks(models, arguments, needs_points(method));
  const auto chosen = choose(method, tasks, arguments);
  if (!arguments.output.empty()) write_answer(arguments.output, chosen_lines(tasks, chosen, arguments));
  write_answer("", arguments.json ? as_json(tasks, chosen, arguments) : as_csv(tasks, chosen));
}

}  // namespace foretime::cli
