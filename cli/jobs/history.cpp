#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "history/run_history.h"

namespace foretime::cli {
namespace {

constexpr size_t kCurveWidth = 24;

struct HistoryOptions {
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
    text += std::isfinite(value) ? kBars[static_cast<size_t>(std::lround(height * 7))] : " ";
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
  return format_table(rows);
}

void run(const HistoryOptions& options) {
  const auto history = history::read_run(options.run);
  if (options.csv) {
    fmt::print("{}", history::to_csv(history));
  } else if (options.json) {
    fmt::print("{}\n", history::to_json(history).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", history.empty() ? "nothing was measured yet\n" : table(history));
  }
}

}  // namespace

void add_history_command(CLI::App& app) {
  auto options = std::make_shared<HistoryOptions>();
  auto* command = app.add_subcommand("history", "Show what a training measured at its steps: losses, rates, metrics");
  needed_option(*command, "run", options->run,
                "a run directory, or that of a job (RUNS/ID), whose attempts then are one history", "RUN");
  auto* csv = command->add_flag("--csv", options->csv, "print a line for each step, in columns by name");
  command->add_flag("--json", options->json, "print JSON: steps and values of each series")->excludes(csv);
  command->footer(
      "Examples:\n"
      "  foretime history runs/quickstart\n"
      "  foretime history runs/quickstart --csv > history.csv");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
