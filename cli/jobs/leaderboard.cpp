#include "jobs/sweep/leaderboard.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/message.h"
#include "base/table.h"
#include "base/terminal.h"
#include "cli/jobs/job_view.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/error.h"
#include "jobs/sweep/search_space.h"
#include "metrics/metric_table.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

struct LeaderboardOptions {
  QueueOptions queue;
  std::string sweep, metric, goal;
  std::vector<std::string> with;
  std::optional<int64_t> top;
  bool trials = false, csv = false, json = false;
};

constexpr int64_t kShown = 50;      // rows of a table where nothing is said
constexpr size_t kSample = 64;      // records from which the columns of all trials of a sweep are chosen
constexpr size_t kRowsAtOnce = 64;  // records in memory

/// A sweep's rows, with what all printers need to know. Their records are read when they are printed.
struct Board {
  jobs::SweepRecord sweep{};
  std::string metric{};
  bool maximize = true;
  bool joined = false;  // rows join several seeds
  std::vector<std::string> ids{};
  std::vector<jobs::RankedRow> rows{};
  size_t omitted_rows = 0;
  std::vector<std::string> with{};  // other metrics
  std::set<std::string> keys{};     // swept parameters
};

/// `seeds` of a sweep repeats every trial; a seed that is swept itself is a parameter like any other.
bool repeats_seeds(const jobs::SearchSpace& space, const std::vector<jobs::JobRecord>& sample) {
  const bool swept = std::any_of(space.begin(), space.end(), [](const auto& p) { return p.key == "trainer.seed"; });
  return !swept && std::any_of(sample.begin(), sample.end(),
                               [](const auto& job) { return job.spec.parameters.contains("trainer.seed"); });
}

/// A metric that no trial reported is a mistake, unless none reported anything yet.
void check_metrics(const Board& board, jobs::QueueReader& reader, const std::set<std::string>& found, bool any) {
  if (!any) return;
  auto wanted = board.with;
  wanted.push_back(board.metric);
  for (const auto& name : wanted) {
    if (name == board.sweep.spec.metric || found.contains(name)) continue;
    std::set<std::string> known = {board.sweep.spec.metric};
    for (const auto& row : board.rows) {
      if (known.size() > 1) break;
      for (const auto& job : reader.jobs({board.ids[row.trials.front()]}))
        for (const auto& [each, value] : job.metrics) known.insert(each);
    }
    std::string names;
    for (const auto& each : known) names += " " + each;
    throw jobs::JobRefused("metric {}: no trial of sweep {} has this metric; found:{}", name, board.sweep.spec.id,
                           names);
  }
}

/// Reads of every trial what ranks it, and the parameters where rows are joined or the sweep does not say what it
/// varies.
void rank(jobs::QueueReader& reader, const jobs::SearchSpace& space, Board& board) {
  auto fields = jobs::standing_fields();
  const size_t parameters = fields.size();
  if (board.joined || space.empty()) fields.emplace_back("parameters");
  std::vector<jobs::Standing> standings;
  std::vector<uint32_t> join;
  std::map<jobs::Parameters, uint32_t> configurations;
  std::set<std::string> wanted(board.with.begin(), board.with.end()), found;
  wanted.insert(board.metric);
  bool any = false;
  reader.scan(board.ids, fields, [&](size_t index, const std::vector<std::string_view>& values) {
    if (const auto state = configs::choice_named<jobs::JobState>(std::string(values[1]))) ++board.sweep.jobs[*state];
    else ++board.sweep.unreadable;
    any = any || values[6].size() > 2;
    for (const auto& name : wanted)
      if (!found.contains(name) && jobs::number_in(values[6], name)) found.insert(name);
    const auto standing = jobs::standing_of(index, values, board.metric);
    if (!standing) return;
    standings.push_back(*standing);
    if (fields.size() == parameters) return;
    jobs::Parameters swept;
    const auto json = Json::parse(values[parameters], nullptr, false);
    if (json.is_object())
      for (const auto& [key, value] : json.items())
        if (value.is_string() && !(board.joined && key == "trainer.seed")) swept[key] = value.get<std::string>();
    for (const auto& [key, value] : swept) board.keys.insert(key);
    if (board.joined) join.push_back(configurations.emplace(swept, join.size()).first->second);
  });
  board.rows = jobs::ranked_rows(standings, join, board.maximize);
  check_metrics(board, reader, found, any);
}

/// Returns what a sweep varies. Where its definition is damaged nothing is known of it, and the sweep is marked so.
jobs::SearchSpace space_of(jobs::SweepRecord& sweep) {
  if (sweep.damage.contains("definition")) return {};
  try {
    return jobs::parse_search_space(sweep.spec.definition);
  } catch (const jobs::JobsError& error) {
    sweep.damage["definition"] = error.what();
    return {};
  }
}

Board make_board(jobs::QueueReader& reader, const LeaderboardOptions& options) {
  std::string id;
  if (!options.sweep.empty()) {
    id = reader.resolve_sweep(options.sweep);
  } else {
    const auto newest = reader.sweeps(1);
    if (newest.empty()) throw jobs::JobRefused("found no sweep; foretime submit SWEEP.yaml makes one");
    id = newest.front();
  }
  Board board;
  const auto sweep = reader.sweep(id);
  if (!sweep) throw jobs::JobUnknown("sweep {}: unknown", id);
  board.sweep = *sweep;
  // Without these nobody knows what is best.
  for (const auto& [field, given] :
       {std::pair("metric", !options.metric.empty()), std::pair("goal", !options.goal.empty())}) {
    if (const auto damaged = sweep->damage.find(field); damaged != sweep->damage.end() && !given)
      throw jobs::JobsError("{}; give --{}", damaged->second, field);
  }
  if (sweep->damage.contains("record") && sweep->spec.metric.empty())
    throw jobs::JobsError("{}", sweep->damage.at("record"));
  board.metric = options.metric.empty() ? sweep->spec.metric : options.metric;
  board.maximize = options.goal.empty() ? sweep->spec.maximize : options.goal == "maximize";
  const bool by_table = options.goal.empty() && board.metric != sweep->spec.metric;
  const auto* info = metrics::find_metric(board.metric);
  if (by_table && info != nullptr) board.maximize = !info->lower_is_better;
  board.with = options.with;
  board.ids = reader.ids_of_sweep(id);
  const auto sample = reader.trials({board.ids.begin(), board.ids.begin() + std::min(kSample, board.ids.size())});
  const auto space = space_of(board.sweep);
  board.joined = !options.trials && repeats_seeds(space, sample);
  for (const auto& parameter : space) board.keys.insert(parameter.key);
  for (const auto& job : sample)
    for (const auto& [key, value] : job.spec.parameters)
      if (!(board.joined && key == "trainer.seed")) board.keys.insert(key);
  rank(reader, space, board);  // refuses a metric that no trial has
  if (by_table && info == nullptr)
    throw jobs::JobRefused("metric {}: not a metric of foretime, so its direction is unknown; give --goal",
                           board.metric);
  const auto shown = options.top.value_or(options.csv || options.json ? 0 : kShown);
  if (shown > 0 && std::ssize(board.rows) > shown) {
    board.omitted_rows = board.rows.size() - shown;
    board.rows.resize(shown);
  }
  return board;
}

/// Reads the rows' records, a few rows at a time.
template <class Take>
void each_row(jobs::QueueReader& reader, const Board& board, const Take& take) {
  for (size_t from = 0; from < board.rows.size(); from += kRowsAtOnce) {
    const size_t to = std::min(board.rows.size(), from + kRowsAtOnce);
    std::vector<std::string> ids;
    for (size_t i = from; i < to; ++i)
      for (const auto trial : board.rows[i].trials) ids.push_back(board.ids[trial]);
    std::map<std::string, jobs::JobRecord> records;
    for (auto& job : reader.jobs(ids)) records[job.spec.id] = std::move(job);
    for (size_t i = from; i < to; ++i) {
      std::vector<jobs::JobRecord> trials;
      for (const auto trial : board.rows[i].trials) {
        const auto found = records.find(board.ids[trial]);
        if (found != records.end()) trials.push_back(std::move(found->second));
      }
      const auto rows = jobs::leaderboard_rows(trials, board.metric, board.maximize, board.joined);
      if (!rows.empty()) take(i + 1, rows.front());  // unless it was forgotten meanwhile
    }
  }
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

std::string table_of(jobs::QueueReader& reader, const Board& board) {
  std::vector<std::vector<std::string>> rows = {{"rank", board.joined ? "trials" : "trial", "job", "state"}};
  const auto metric = one_line(board.metric, 200);
  rows.front().push_back(board.joined ? metric + " (mean ± deviation of n)" : metric);
  for (const auto& name : board.with) rows.front().push_back(name);
  for (const auto& key : board.keys) rows.front().push_back(one_line(key, 60));
  each_row(reader, board, [&](size_t rank, const jobs::LeaderboardRow& row) {
    auto value = number_text(row.value);
    if (board.joined && row.counted > 0) value += fmt::format(" ± {:.2g} of {}", row.spread, row.counted);
    std::vector<std::string> line = {row.value ? fmt::format("{}", rank) : "-", trials_text(row),
                                     row.trials.front().spec.id, states_text(row), value};
    for (const auto& name : board.with) line.push_back(number_text(mean_of(row, name)));
    for (const auto& key : board.keys) line.push_back(parameter_text(parameter_of(row, key), 40));
    rows.push_back(std::move(line));
  });
  return fmt::format("sweep {} {}: {} ({} is better), {}\n{}{}", board.sweep.spec.id,
                     one_line(board.sweep.spec.name, 60), one_line(board.metric, 200),
                     board.maximize ? "larger" : "smaller", counts_text(board.sweep.jobs),
                     format_table(rows, output_width()),
                     board.omitted_rows > 0 ? fmt::format("  … and {} more (--top 0: all)\n", board.omitted_rows) : "");
}

std::string exact(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

void print_csv(jobs::QueueReader& reader, const Board& board) {
  std::string head = "rank,trial,job,state,stopped," + spreadsheet_field(board.metric);
  if (board.joined) head += ",deviation,count";
  for (const auto& name : board.with) head += "," + spreadsheet_field(name);
  for (const auto& key : board.keys) head += "," + spreadsheet_field(key);
  fmt::print("{}\n", head);
  each_row(reader, board, [&](size_t rank, const jobs::LeaderboardRow& row) {
    const bool stopped = row.trials.size() == 1 && row.trials.front().stopped;
    auto text =
        fmt::format("{},{},{},{},{},{}", row.value ? fmt::format("{}", rank) : "", trials_text(row),
                    row.trials.front().spec.id, spreadsheet_field(states_text(row)), stopped ? 1 : 0, exact(row.value));
    if (board.joined) text += fmt::format(",{},{}", row.spread, row.counted);
    for (const auto& name : board.with) text += fmt::format(",{}", exact(mean_of(row, name)));
    for (const auto& key : board.keys) text += fmt::format(",{}", spreadsheet_field(parameter_of(row, key)));
    fmt::print("{}\n", text);
  });
}

Json row_json(const Board& board, size_t rank, const jobs::LeaderboardRow& row) {
  Json trials = Json::array();
  for (const auto& job : row.trials) {
    const auto value = jobs::metric_of(job, board.metric);
    trials.push_back({{"trial", job.spec.trial < 0 ? Json() : Json(job.spec.trial)},
                      {"job", job.spec.id},
                      {"state", job.unreadable.empty() ? jobs::to_string(job.state) : "unreadable"},
                      {"stopped", job.stopped},
                      {"value", value ? Json(*value) : Json()},
                      {"parameters", job.spec.parameters},
                      {"metrics", job.metrics},
                      {"checkpoint", job.checkpoint}});
  }
  return {{"rank", row.value ? Json(rank) : Json()},
          {"value", row.value ? Json(*row.value) : Json()},
          {"deviation", row.counted > 1 ? Json(row.spread) : Json()},
          {"count", row.counted},
          {"parameters", row.parameters},
          {"trials", std::move(trials)}};
}

void print_json(jobs::QueueReader& reader, const Board& board) {
  JsonListPrinter printer("rows");
  each_row(reader, board,
           [&](size_t rank, const jobs::LeaderboardRow& row) { printer.add(row_json(board, rank, row)); });
  printer.end({{"sweep", board.sweep.spec.id},
               {"name", board.sweep.spec.name},
               {"metric", board.metric},
               {"goal", board.maximize ? "maximize" : "minimize"}});
}

void run(const LeaderboardOptions& options) {
  QueueAccess access(options.queue, Start::to_read);
  auto& reader = access.reader();
  const auto board = make_board(reader, options);
  for (const auto& what : reader.take_damage()) print_message("warning: damaged: {}\n", what);
  if (!board.sweep.damage.empty())
    print_message("warning: sweep {} is damaged: {}\n", board.sweep.spec.id, damage_text(board.sweep));
  if (options.json) print_json(reader, board);
  else if (options.csv) print_csv(reader, board);
  else fmt::print("{}", table_of(reader, board));
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
  checked_option(*command, "--top", options->top, "the best so many; 0: all; default: 50 in a table, else all",
                 Least::zero, "N");
  command->add_flag("--trials", options->trials, "a line for each seed, where the sweep has `seeds`");
  auto* csv = command->add_flag("--csv", options->csv, "print CSV");
  command->add_flag("--json", options->json, "print JSON, with the metrics of every trial")->excludes(csv);
  add_queue_options(*command, options->queue);
  command->footer(
      "A trial that ended by itself counts with its final evaluation; "
      "one that was stopped early, or still runs, with the\n"
      "best evaluation so far. A sweep with `seeds` has one line for all seeds of a trial: mean and sample standard\n"
      "deviation over those that have a value.\n"
      "Examples:\n"
      "  foretime leaderboard\n"
      "  foretime leaderboard 3fa9 --metric test/mae --goal minimize --with test/kendall_tau --csv");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
