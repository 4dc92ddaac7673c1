#include "worker/run/display.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/message.h"
#include "base/table.h"
#include "base/terminal.h"

namespace foretime::worker {
namespace {

using Metrics = std::map<std::string, double>;

std::string cell(const Metrics& metrics, const std::string& name, double factor = 1.0, const char* format = "{:.3f}") {
  const auto found = metrics.find(name);
  return found == metrics.end() ? "-" : fmt::format(fmt::runtime(format), found->second * factor);
}

/// Seconds are shown in milliseconds, as the literature does; other units as they are.
std::pair<double, const char*> display_unit(data::RuntimeUnit unit) {
  switch (unit) {
    case data::RuntimeUnit::seconds: return {1e3, "l1 (ms)"};
    case data::RuntimeUnit::nanoseconds: return {1e-6, "l1 (ms)"};
    case data::RuntimeUnit::normalized: break;
  }
  return {1.0, "l1"};
}

bool has_set(const NamedEvaluation& row, const std::string& set) {
  return row.second.metrics.lower_bound(set + "/") != row.second.metrics.end() &&
         row.second.metrics.lower_bound(set + "/")->first.starts_with(set + "/");
}

constexpr size_t kBarWidth = 24;
constexpr size_t kAnyWidth = 100'000;

}  // namespace

std::string comparison_table(const std::vector<NamedEvaluation>& evaluations, size_t width) {
  std::string text;
  for (const std::string set : {"holdout", "valid", "test"}) {
    if (evaluations.empty() || !has_set(evaluations.front(), set)) continue;
    auto unit = data::RuntimeUnit::nanoseconds;
    size_t groups = 0;
    for (const auto& group : evaluations.front().second.groups) {
      if (group.set != set) continue;
      unit = group.unit;
      ++groups;
    }
    const auto [factor, l1] = display_unit(unit);
    const bool fail = evaluations.front().second.metrics.contains(set + "/failure_auc");
    const bool programs = unit == data::RuntimeUnit::seconds;
    const auto columns = [&](const std::map<std::string, double>& m) -> std::vector<std::string> {
      const auto of = [&](const char* name, double factor = 1, const char* format = "{:.3f}") {
        return cell(m, set + "/" + name, factor, format);
      };
      std::vector<std::string> row = {of("mae", factor, "{:.4g}"), of("kendall_tau")};
      if (programs) {
        for (const char* name : {"pairwise_accuracy", "top1_score", "top5_score"}) row.push_back(of(name));
        row.push_back(of("top1_slowdown", 100, "{:.1f} %"));
        if (fail) row.push_back(of("failure_auc"));
        return row;
      }
      row.push_back(of("opa"));
      for (const char* name : {"top1_slowdown", "top10_slowdown"}) row.push_back(of(name, 100, "{:.1f} %"));
      return row;
    };
    std::vector<std::vector<std::string>> rows = {
        programs ? std::vector<std::string>{"model", l1, "Kendall τ", "pairwise", "top-1", "top-5", "top-1 slowdown"}
                 : std::vector<std::string>{"model", l1, "Kendall τ", "OPA", "top-1 slowdown", "top-10 slowdown"}};
    if (programs && fail) rows.front().push_back("failures");
    for (const auto& [name, evaluation] : evaluations) {
      rows.push_back(columns(evaluation.metrics));
      rows.back().insert(rows.back().begin(), name);
    }
    const auto ceiling = cell(evaluations.front().second.metrics, set + "/noise_ceiling_tau");
    if (ceiling != "-") {
      rows.emplace_back(rows.front().size());
      rows.back()[0] = "noise ceiling";
      rows.back()[2] = ceiling;
    }
    const char* meaning = set == "holdout" ? "held-out candidates of the training groups"
                          : set == "valid" ? "validation groups"
                                           : "test groups";
    text += fmt::format("\n{}: {} ({} groups)\n{}", set, meaning, groups, format_table(rows, width));
  }
  return text;
}

std::string group_table(const worker::Evaluation& evaluation, size_t width) {
  std::vector<std::vector<std::string>> rows = {
      {"group", "set", "candidates", "Kendall τ", "noise ceiling", "top-1 slowdown", "l1 / mean"}};
  for (const auto& group : evaluation.groups) {
    const auto& m = group.metrics;
    double sum = 0, ran = 0;
    for (const double runtime : group.runtimes)
      if (std::isfinite(runtime)) sum += runtime, ++ran;
    const double mean = sum / std::max(1.0, ran);
    rows.push_back({group.group, group.set, fmt::format("{}", group.candidates.size()), cell(m, "kendall_tau"),
                    cell(m, "noise_ceiling_tau"), cell(m, "top1_slowdown", 100, "{:.1f} %"),
                    mean > 0 ? cell(m, "mae", 1 / mean) : "-"});
  }
  return format_table(rows, width);
}

inference::Ranking ranking_of(const worker::GroupEvaluation& group) {
  return {.group = group.group,
          .candidates = group.candidates,
          .scores = group.scores.scores,
          .predicted = group.scores.predicted,
          .levels = group.scores.levels,
          .ids = group.ids,
          .failures = group.scores.failures};
}

std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group) {
  return submission_line(collection, ranking_of(group));
}

ProgressDisplay::ProgressDisplay(std::string label, std::string metric)
    : label_(std::move(label)), metric_(std::move(metric)), terminal_(isatty(STDERR_FILENO) != 0) {}

std::string progress_line(const std::string& label, const std::string& metric, const StepEvent& now, size_t width) {
  const auto report = now.report.value_or(TrainingReport{});
  const auto& ranks = report.ranks;
  const double seconds = now.eta_seconds();
  const auto filled =
      static_cast<size_t>(static_cast<int64_t>(kBarWidth) * now.step / std::max<int64_t>(1, now.total_steps));
  struct Part {
    std::string text;
    int order;  // the largest goes first
  };
  std::vector<Part> parts = {{width == kAnyWidth ? label + ":" : label, 0},
                             {fmt::format("[{}{}]", std::string(filled, '#'), std::string(kBarWidth - filled, '.')),
                              width == kAnyWidth ? 9 : 5},
                             {fmt::format("step {}/{} ", now.step, now.total_steps), 0},
                             {fmt::format("loss {:.4g} ", now.loss), 1},
                             {report.metric ? fmt::format("{} {:.4g} ", metric, *report.metric) : "", 3},
                             {now.report ? fmt::format("{:.0f} candidates/s ", report.candidates_per_second) : "", 4},
                             // Alone, there is nobody to wait for.
                             {ranks.comm_wait_ms > 0 ? fmt::format("comm {:.2g} ms ({:.1f} %) ", ranks.comm_exposed_ms,
                                                                   100 * ranks.comm_exposed_share)
                                                     : "",
                              7},
                             {now.report ? fmt::format("lr {:.2g} ", report.learning_rate) : "", 6},
                             {fmt::format("eta {}", seconds < 0 ? "-" : duration_text(seconds)), 2}};
  for (int most = width == kAnyWidth ? 8 : 9;; --most) {
    std::string line;
    for (const auto& part : parts)
      if (part.order <= most && !part.text.empty()) line += (line.empty() ? "" : " ") + part.text;
    if (text_width(line) <= width || most == 0) return cut_to_width(line, width);
  }
}

void ProgressDisplay::on_step(const StepEvent& now) {
  // The first step is shown at once: with the steps of a report, a slow training would be silent for minutes.
  if (!now.report && std::exchange(shown_, true)) return;
  shown_ = true;
  const auto size = terminal_ ? terminal_size(STDERR_FILENO) : std::nullopt;
  if (!size) {
    print_message("{}\n", progress_line(label_, metric_, now, kAnyWidth));
    return;
  }
  // The last column stays free: some terminals wrap there.
  print_message("\r\033[K{}", progress_line(label_, metric_, now, size->columns - 1));
  drawn_ = true;
}

void ProgressDisplay::finish() {
  if (drawn_) print_message("\n");
  drawn_ = false;
}

}  // namespace foretime::worker
