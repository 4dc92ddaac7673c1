#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/message.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/jobs/job_history.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "history/run_history.h"
#include "jobs/error.h"

namespace foretime::cli {
namespace {

constexpr size_t kCurveWidth = 24;

struct HistoryOptions {
  QueueOptions queue;
  std::string run;
  bool csv = false, json = false;
};

/// A curve in one line of kCurveWidth columns: heights between the least and the largest value.
std::string curve(const history::Series& series) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto some = history::thinned(series, kCurveWidth);
  double least = INFINITY, most = -INFINITY;
  for (const auto& [step, value] : some) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  std::string text;
  for (const auto& [step, value] : some) {
    const double height = most > least ? (value - least) / (most - least) : 0;
    text += std::isfinite(value) ? kBars[std::lround(height * 7)] : " ";
  }
  return text + std::string(kCurveWidth - some.size(), ' ');
}

std::string table(const history::History& history) {
  std::vector<std::vector<std::string>> rows = {{"series", "points", "steps", "first", "least", "most", "last", ""}};
  for (const auto& [name, series] : history.series()) {
    double least = NAN, most = NAN;
    for (const auto& [step, value] : series) {
      least = std::fmin(least, value);
      most = std::fmax(most, value);
    }
    const auto number = [](double value) { return fmt::format("{:.4g}", value); };
    rows.push_back({printable_utf8(name), std::to_string(series.size()),
                    fmt::format("{} to {}", series.front().step, series.back().step), number(series.front().value),
                    number(least), number(most), number(series.back().value), curve(series)});
  }
  return format_table(rows, output_width());
}

history::History history_of_job(const HistoryOptions& options) {
  QueueAccess access(options.queue, Start::to_read);
  const auto id = access.reader().resolve_job(options.run);
  const auto job = access.reader().job(id);
  if (!job) throw jobs::JobUnknown("job {}: unknown (finished jobs are forgotten after a while)", id);
  auto found = history_of(*job, options.queue.runs);
  print_message("job {}, from {}\n", id, found.source);
  return std::move(found.history);
}

void run(const HistoryOptions& options) {
  const bool folder = files().is_folder(options.run) || options.run.find('/') != std::string::npos;
  const auto history = folder ? history::read_run(options.run) : history_of_job(options);
  if (options.csv) fmt::print("{}", history::to_csv(history));
  else if (options.json)
    fmt::print("{}\n", history::to_json(history).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else fmt::print("{}", history.empty() ? "nothing was measured yet\n" : table(history));
}

}  // namespace

void add_history_command(CLI::App& app) {
  auto options = std::make_shared<HistoryOptions>();
  auto* command = app.add_subcommand("history", "Show what a training measured at its steps: losses, rates, metrics");
  needed_option(*command, "run", options->run,
                "a run directory, that of a job (RUNS/ID), or the first digits of a job's id; attempts are one history",
                "RUN|ID");
  auto* csv = command->add_flag("--csv", options->csv, "print a line for each step, in columns by name");
  command->add_flag("--json", options->json, "print JSON: steps and values of each series")->excludes(csv);
  add_queue_options(*command, options->queue);
  command->footer(
      "Of a job whose folder is not in --runs, Redis has a thinned history with rounded numbers.\n"
      "Examples:\n"
      "  foretime history 3fa9                            of the job whose id begins so\n"
      "  foretime history runs/quickstart\n"
      "  foretime history runs/quickstart --csv > history.csv");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
