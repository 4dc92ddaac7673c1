#include "jobs/sweep/leaderboard.h"

#include <memory>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/text.h"
#include "cli/jobs/job_view.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/metrics.h"
#include "jobs/error.h"
#include "jobs/sweep/search_space.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

struct LeaderboardOptions {
  QueueOptions queue;
  std::string sweep, metric, goal;
  std::vector<std::string> with;
  int64_t top = 0;
  bool trials = false, csv = false, json = false;
};

/// A sweep's rows, with what all printers need to know.
struct Board {
  jobs::SweepRecord sweep;
  std::string metric;
  bool maximize = true;
  bool joined = false;  // rows stand for several seeds
  std::vector<jobs::LeaderboardRow> rows;
  std::vector<std::string> with;  // other metrics
  std::set<std::string> keys;     // swept parameters
};

/// `seeds` of a sweep repeats every trial; a seed that is swept itself is a parameter like any other.
bool repeats_seeds(const jobs::SweepRecord& sweep, const std::vector<jobs::JobRecord>& jobs) {
  const auto space = jobs::parse_search_space(sweep.spec.definition);
  const bool swept = std::any_of(space.begin(), space.end(), [](const auto& p) { return p.key == "trainer.seed"; });
  return !swept && std::any_of(jobs.begin(), jobs.end(),
                               [](const auto& job) { return job.spec.parameters.contains("trainer.seed"); });
}

void check_metrics(const Board& board, const std::vector<jobs::JobRecord>& jobs) {
  std::set<std::string> known = {board.sweep.spec.metric};
  for (const auto& job : jobs) {
    for (const auto& [name, value] : job.metrics) known.insert(name);
  }
  if (known.size() == 1) return;  // nothing was reported yet
  auto wanted = board.with;
  wanted.push_back(board.metric);
  for (const auto& name : wanted) {
    if (known.contains(name)) continue;
    std::string names;
    for (const auto& each : known) names += " " + each;
    throw jobs::JobRefused("metric {}: no trial of sweep {} has it; known:{}", name, board.sweep.spec.id, names);
  }
}

Board make_board(jobs::QueueReader& reader, const LeaderboardOptions& options) {
  std::string id;
  if (!options.sweep.empty()) {
    id = reader.resolve_sweep(options.sweep);
  } else {
    const auto newest = reader.sweeps(1);
    if (newest.empty()) throw jobs::JobRefused("there is no sweep yet: foretime submit SWEEP.yaml makes one");
    id = newest.front();
  }
  Board board;
  const auto sweep = reader.sweep(id);
  if (!sweep) throw jobs::JobRefused("sweep {}: unknown", id);
  board.sweep = *sweep;
  const auto jobs = reader.jobs(reader.ids_of_sweep(id));
  board.metric = options.metric.empty() ? sweep->spec.metric : options.metric;
  board.maximize = options.goal.empty() ? sweep->spec.maximize : options.goal == "maximize";
  if (options.goal.empty() && board.metric != sweep->spec.metric) {
    const auto* info = configs::find_metric(board.metric);
    if (info == nullptr)
      throw jobs::JobRefused("metric {}: no metric of foretime's, so that its direction is not known; give --goal",
                             board.metric);
    board.maximize = !info->lower_is_better;
  }
  board.with = options.with;
  check_metrics(board, jobs);
  board.joined = !options.trials && repeats_seeds(*sweep, jobs);
  board.rows = jobs::leaderboard_rows(jobs, board.metric, board.maximize, board.joined);
  for (const auto& row : board.rows) {
    for (const auto& [key, value] : row.parameters) board.keys.insert(key);
  }
  if (options.top > 0 && board.rows.size() > static_cast<size_t>(options.top))
    board.rows.resize(static_cast<size_t>(options.top));
  return board;
}

/// 2 succeeded, 1 stopped: the states of a row's trials.
std::string states_text(const jobs::LeaderboardRow& row) {
  if (row.trials.size() == 1) return state_text(row.trials.front());
  std::map<std::string, int> counts;
  for (const auto& job : row.trials) ++counts[state_text(job)];
  std::string text;
  for (const auto& [state, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  return text;
}

/// The mean of another metric over a row's trials.
std::optional<double> mean_of(const jobs::LeaderboardRow& row, const std::string& metric) {
  double sum = 0;
  int count = 0;
  for (const auto& job : row.trials) {
    if (const auto value = jobs::metric_of(job, metric)) {
      sum += *value;
      ++count;
    }
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

std::string trials_text(const jobs::LeaderboardRow& row) {
  std::string text;
  for (const auto& job : row.trials) text += fmt::format("{}{}", text.empty() ? "" : " ", job.spec.trial);
  return text;
}

std::string parameter_of(const jobs::LeaderboardRow& row, const std::string& key) {
  const auto found = row.parameters.find(key);
  return found == row.parameters.end() ? "" : found->second;
}

std::string to_table(const Board& board) {
  std::vector<std::vector<std::string>> rows = {{"rank", board.joined ? "trials" : "trial", "job", "state"}};
  rows.front().push_back(board.joined ? board.metric + " (mean ± deviation of n)" : board.metric);
  for (const auto& name : board.with) rows.front().push_back(name);
  for (const auto& key : board.keys) rows.front().push_back(key);
  for (const auto& row : board.rows) {
    auto value = number_text(row.value);
    if (board.joined && row.counted > 0) value += fmt::format(" ± {:.2g} of {}", row.spread, row.counted);
    std::vector<std::string> line = {row.value ? fmt::format("{}", rows.size()) : "-", trials_text(row),
                                     row.trials.front().spec.id, states_text(row), value};
    for (const auto& name : board.with) line.push_back(number_text(mean_of(row, name)));
    for (const auto& key : board.keys) line.push_back(shown(parameter_of(row, key), 40));
    rows.push_back(std::move(line));
  }
  return fmt::format("sweep {} {}: {} ({} is better), {}\n{}", board.sweep.spec.id, shown(board.sweep.spec.name, 60),
                     board.metric, board.maximize ? "larger" : "smaller", counts_text(board.sweep.jobs),
                     format_table(rows));
}

std::string exact(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

std::string to_csv(const Board& board) {
  std::string text = "rank,trial,job,state,stopped," + csv_field(board.metric);
  if (board.joined) text += ",deviation,count";
  for (const auto& name : board.with) text += "," + csv_field(name);
  for (const auto& key : board.keys) text += "," + csv_field(key);
  text += "\n";
  size_t rank = 0;
  for (const auto& row : board.rows) {
    ++rank;
    const bool stopped = row.trials.size() == 1 && row.trials.front().stopped;
    text += fmt::format("{},{},{},{},{},{}", row.value ? fmt::format("{}", rank) : "", trials_text(row),
                        row.trials.front().spec.id, csv_field(states_text(row)), stopped ? 1 : 0, exact(row.value));
    if (board.joined) text += fmt::format(",{},{}", row.spread, row.counted);
    for (const auto& name : board.with) text += fmt::format(",{}", exact(mean_of(row, name)));
    for (const auto& key : board.keys) text += fmt::format(",{}", csv_field(parameter_of(row, key)));
    text += "\n";
  }
  return text;
}

std::string to_json_text(const Board& board) {
  Json rows = Json::array();
  for (const auto& row : board.rows) {
    Json trials = Json::array();
    for (const auto& job : row.trials) {
      const auto value = jobs::metric_of(job, board.metric);
      trials.push_back({{"trial", job.spec.trial},
                        {"job", job.spec.id},
                        {"state", job.unreadable.empty() ? jobs::to_string(job.state) : "unreadable"},
                        {"stopped", job.stopped},
                        {"value", value ? Json(*value) : Json()},
                        {"parameters", job.spec.parameters},
                        {"metrics", job.metrics},
                        {"checkpoint", job.checkpoint}});
    }
    rows.push_back({{"rank", row.value ? Json(rows.size() + 1) : Json()},
                    {"value", row.value ? Json(*row.value) : Json()},
                    {"deviation", row.counted > 1 ? Json(row.spread) : Json()},
                    {"count", row.counted},
                    {"parameters", row.parameters},
                    {"trials", std::move(trials)}});
  }
  const Json json = {{"sweep", board.sweep.spec.id},
                     {"name", board.sweep.spec.name},
                     {"metric", board.metric},
                     {"goal", board.maximize ? "maximize" : "minimize"},
                     {"rows", std::move(rows)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void run(const LeaderboardOptions& options) {
  QueueAccess access(options.queue, Start::never);
  const auto board = make_board(access.reader(), options);
  fmt::print("{}", options.json ? to_json_text(board) : options.csv ? to_csv(board) : to_table(board));
}

}  // namespace

void add_leaderboard_command(CLI::App& app) {
  auto options = std::make_shared<LeaderboardOptions>();
  auto* command = app.add_subcommand("leaderboard", "The trials of a sweep, best first, with what was swept");
  typed_option(*command, "sweep", options->sweep, "id of the sweep, the first digits are enough; default: the newest",
               "ID");
  typed_option(*command, "--metric", options->metric, "default: the sweep's", "NAME");
  checked_option(*command, "--goal", options->goal, "default: the sweep's; for another --metric its own direction",
                 CLI::IsMember({"maximize", "minimize"}));
  typed_option(*command, "--with", options->with, "further metrics as columns", "NAME")->delimiter(',');
  checked_option(*command, "--top", options->top, "the best so many; 0: all", CLI::NonNegativeNumber, "N");
  command->add_flag("--trials", options->trials, "a line for each seed, where the sweep has `seeds`");
  auto* csv = command->add_flag("--csv", options->csv, "print CSV");
  command->add_flag("--json", options->json, "print JSON, with the metrics of every trial")->excludes(csv);
  add_queue_options(*command, options->queue);
  command->footer(
      "A trial that ended by itself counts with its final evaluation; one that was stopped early, or still runs, with "
      "the\n"
      "best evaluation so far. A sweep with `seeds` has one line for all seeds of a trial: mean and sample standard\n"
      "deviation over those that have a value.\n"
      "Examples:\n"
      "  foretime leaderboard\n"
      "  foretime leaderboard 3fa9 --metric test/mae --goal minimize --with test/kendall_tau --csv");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
