#include "cli/jobs/job_view.h"

#include <algorithm>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/numbers.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "jobs/sweep/sweep.h"

namespace foretime::cli {
namespace {

constexpr int kBarWidth = 12;
constexpr size_t kShortId = 8;  // digits of an id where there is little room
constexpr size_t kNameWidth = 40, kReasonWidth = 90;
constexpr size_t kLongestParameterText = 1000;

/// Lines of a longer text, indented.
std::string block(const std::string& text) {
  auto lines = "\n    " + printable_lines(text, "\n    ");
  lines.erase(lines.find_last_not_of(" \n") + 1);
  return lines;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string format_fields(const Fields& fields) {
  std::string text;
  for (const auto& [name, value] : fields)
    if (!value.empty() && value != "-") text += fmt::format("{:<12} {}\n", name, printable_lines(value));
  return text;
}

/// 2026-11-21 05:01:07 by this machine's time zone; - for 0.
std::string time_text(int64_t milliseconds) {
  if (milliseconds <= 0) return "-";
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += fmt::format("{}{}  {}", text.empty() ? "" : "\n", name, number_text(value));
  return text.empty() ? "" : block(text);
}

/// The first line of an error, and of the log that follows it what foretime said last, or the last line:
/// "exit code 3: foretime: C1.npz: …".
std::string short_error(std::string error) {
  while (error.ends_with('\n')) error.pop_back();
  const auto first = error.find('\n');
  if (first == std::string::npos) return error;
  const auto said = error.rfind("\nforetime: ");
  const auto last = error.substr((said == std::string::npos ? error.rfind('\n') : said) + 1);
  return error.substr(0, first) + ": " + last.substr(0, last.find('\n'));
}

}  // namespace

std::string printable_lines(const std::string& text, const std::string& between) {
  std::string lines;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    lines += (begin > 0 ? between : "") + printable_utf8(text.substr(begin, end - begin));
  }
  return lines;
}

std::string one_line(const std::string& text, size_t width) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = printable_utf8(line);
  size_t characters = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (continues_character(line[i])) continue;
    if (characters + 1 == width) {
      // The last place is for the mark, unless the text ends there.
      const bool ends = std::all_of(line.begin() + i + 1, line.end(), continues_character);
      return ends ? line : line.substr(0, i) + "…";
    }
    ++characters;
  }
  return line;
}

std::string state_text(const jobs::JobRecord& job) {
  if (!job.unreadable.empty()) return "unreadable";
  if (job.state == jobs::JobState::succeeded && job.stopped) return "stopped";
  if (job.overdue_ms > 0) return "lost";
  if (job.state == jobs::JobState::active && job.cancel_requested) return "cancelling";
  return jobs::to_string(job.state);
}

std::string progress_text(const jobs::JobRecord& job) {
  if (job.total_steps <= 0) return "-";
  const double part = std::clamp(static_cast<double>(job.step) / job.total_steps, 0.0, 1.0);
  const size_t filled = part * kBarWidth;
  return fmt::format("[{}{}] {:3.0f} %", std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                     std::floor(100 * part));
}

std::string number_text(const std::optional<double>& value) { return value ? fmt::format("{:.4g}", *value) : "-"; }

std::string parameter_text(const std::string& value, size_t width) {
  const auto number = parse_number<int64_t>(value) ? std::nullopt : parse_number<double>(value);
  return number ? number_text(number) : one_line(value, width);
}

std::string age_text(int64_t milliseconds) {
  const double seconds = std::max<int64_t>(0, milliseconds) / 1000.0;
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 100 * 60) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / 86400);
}

/// Returns why an active job with an expired lease makes no progress.
static std::string lost_text(const jobs::JobRecord& job) {
  return fmt::format("lost: no word from {}; its lease ran out {} ago; waits for an agent", one_line(job.agent, 60),
                     age_text(job.overdue_ms));
}

/// The columns of a table of jobs that there is room for.
struct JobColumns {
  size_t name = kNameWidth, reason = kReasonWidth;  // characters; 0: left out
  bool short_form = false;                          // eight digits of an id, and no bar
  bool agent = true;                                // agent and attempt
  bool sweep = true;                                // first eight digits of the sweep
};

static std::string job_table(const std::vector<jobs::JobRecord>& jobs, const JobColumns& columns) {
  std::vector<std::vector<std::string>> rows = {{"id"}};
  const auto add = [&](bool is_there, const std::string& text) {
    if (is_there) rows.back().push_back(text);
  };
  const auto fill = [&](const std::vector<std::string>& texts) {
    add(columns.sweep, texts[0]);
    add(columns.name > 0, texts[1]);
    add(true, texts[2]);
    add(columns.agent, texts[3]);
    add(columns.agent, texts[4]);
    for (size_t i = 5; i < 8; ++i) add(true, texts[i]);
    add(columns.reason > 0, texts[8]);
  };
  fill({"sweep", "name", "state", "attempt", "agent", "progress", "metric", "eta", "reason"});
  for (const auto& job : jobs) {
    const bool active = job.state == jobs::JobState::active;
    // What went wrong says more than that something did.
    const bool wrong = !job.error.empty() && (job.state == jobs::JobState::failed || job.state == jobs::JobState::dead);
    const auto why = !job.unreadable.empty()       ? job.unreadable
                     : job.overdue_ms > 0          ? lost_text(job)
                     : wrong || job.reason.empty() ? short_error(job.error)
                                                   : job.reason;
    const auto progress = progress_text(job);
    rows.push_back({columns.short_form ? job.spec.id.substr(0, kShortId) : job.spec.id});
    fill({job.spec.sweep.empty() ? "-" : one_line(job.spec.sweep, 64).substr(0, kShortId),
          one_line(job.spec.name, columns.name), state_text(job),
          job.attempt > 0 ? fmt::format("{}", job.attempt) : "-", active ? one_line(job.agent, kNameWidth) : "-",
          columns.short_form && job.total_steps > 0 ? trimmed(progress.substr(progress.find(']') + 1)) : progress,
          number_text(job.best_objective ? job.best_objective : job.objective),
          active && job.overdue_ms == 0 && job.eta_seconds >= 0 ? duration_text(job.eta_seconds) : "-",
          why.empty() ? "" : one_line(why, columns.reason)});
  }
  return format_table(rows);
}

std::string job_table(const std::vector<jobs::JobRecord>& jobs, size_t width) {
  constexpr size_t kLeastReason = 14, kLeastName = 10;
  JobColumns columns;
  // Of one sweep alone, the column would say the same in each row.
  columns.sweep = std::ranges::any_of(jobs, [&](const auto& job) { return job.spec.sweep != jobs.front().spec.sweep; });
  for (;;) {
    const auto table = job_table(jobs, columns);
    size_t widest = 0;
    for (size_t begin = 0; begin < table.size();) {
      const auto end = std::min(table.find('\n', begin), table.size());
      widest = std::max(widest, text_width(std::string_view(table).substr(begin, end - begin)));
      begin = end + 1;
    }
    if (width == 0 || widest <= width) return table;
    const auto shrink = [&](size_t& column, size_t least) {
      column -= std::min({column - least, widest - width, size_t{4}});
    };
    // What is least missed goes first.
    if (columns.reason > kNameWidth) shrink(columns.reason, kNameWidth);
    else if (!columns.short_form) columns.short_form = true;
    else if (columns.agent) columns.agent = false;
    else if (columns.name > kNameWidth / 2) shrink(columns.name, kNameWidth / 2);
    else if (columns.reason > kLeastReason) shrink(columns.reason, kLeastReason);
    else if (columns.name > kLeastName) shrink(columns.name, kLeastName);
    else if (columns.reason > 0) columns.reason = 0;
    else if (columns.name > 0) columns.name = 0;
    else if (columns.sweep) columns.sweep = false;
    else return table;
  }
}

bool is_heard(const jobs::AgentRecord& agent, const jobs::QueueStatistics& statistics) {
  constexpr int64_t kSilentMilliseconds = 120'000;
  return statistics.now_ms - agent.seen_ms < kSilentMilliseconds;
}

std::string programs_notice(const jobs::QueueStatistics& statistics) {
  const bool any_runs = std::any_of(statistics.agents.begin(), statistics.agents.end(), [&](const auto& agent) {
    return agent.runs_programs && is_heard(agent, statistics);
  });
  if (any_runs || statistics.waiting_for_programs == 0) return "";
  return fmt::format(
      "no agent runs programs, and {} jobs that wait have one: foretime agent --programs FOLDER, the folder with it\n",
      statistics.waiting_for_programs);
}

std::string counts_text(const std::map<jobs::JobState, int64_t>& counts) {
  std::string text;
  for (const auto& [state, count] : counts)
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, jobs::to_string(state));
  return text.empty() ? "no jobs" : text;
}

/// Returns the stored artifacts of a job: step 40 in redis (2.1 MiB), best step 30
static std::string stored_text(const jobs::JobArtifacts& artifacts) {
  std::string text;
  for (const auto* role : {"last", "best"}) {
    const auto found = artifacts.by_role.find(role);
    if (found == artifacts.by_role.end()) continue;
    const auto& artifact = found->second;
    text +=
        fmt::format("{}{}{} in {} ({:.1f} MiB)", text.empty() ? "" : "\n", std::string(role) == "best" ? "best: " : "",
                    artifact.step > 0 ? fmt::format("step {}", artifact.step) : one_line(artifact.path, 60),
                    one_line(artifact.store, 200), artifact.bytes() / 0x1p20);
  }
  return text + (artifacts.unreadable.empty() ? "" : "\n" + one_line(artifacts.unreadable, 300));
}

/// Returns the number of ranks, for an elastic job with that of its newest attempt.
std::string ranks_text(const jobs::JobRecord& job) {
  const auto& needs = job.spec.resources;
  if (!needs.elastic()) return fmt::format("{}", needs.ranks);
  return fmt::format("{} to {}{}", needs.ranks, needs.most_ranks,
                     job.attempt_ranks > 0 ? fmt::format(" ({} in attempt {})", job.attempt_ranks, job.attempt) : "");
}

std::string settings_text(const jobs::JobRecord& job) {
  std::string why = job.unreadable;
  try {
    if (why.empty()) return jobs::resolved_settings(job.spec);
  } catch (const Error& error) {
    why = error.what();
  }
  return fmt::format("# Not the settings that the job runs with, which cannot be resolved: {}\n{}",
                     printable_lines(why, " "), job.spec.settings);
}

std::string describe(const jobs::JobRecord& job, const jobs::JobArtifacts& artifacts) {
  const auto& spec = job.spec;
  std::string parameters;
  for (const auto& [key, value] : spec.parameters)
    parameters +=
        fmt::format("{}{}={}", parameters.empty() ? "" : "\n", key, parameter_text(value, kLongestParameterText));
  return format_fields({
      {"id", spec.id},
      {"kind", jobs::to_string(spec.kind)},
      {"name", one_line(spec.name, jobs::Limits::kName)},
      {"sweep", spec.sweep.empty() ? "" : fmt::format("{}, trial {}", one_line(spec.sweep, 64), spec.trial)},
      {"state", state_text(job)},
      {"unreadable", one_line(job.unreadable, 500)},
      {"reason", job.overdue_ms > 0 ? lost_text(job) : one_line(job.reason, 500)},
      {"attempt",
       fmt::format("{} of {} (failures: {}, fence {})", job.attempt, spec.max_attempts, job.failures, job.fence)},
      {"lost", job.lost > 0 ? fmt::format("{} leases in a row without progress", job.lost) : ""},
      {"preempted", job.preemptions > 0 ? fmt::format("{} times in a row without progress", job.preemptions) : ""},
      {"agent", one_line(job.agent, 200)},
      {"resources",
       fmt::format("{} ranks, {} CPUs and {} GPUs each", ranks_text(job), spec.resources.cpus, spec.resources.gpus)},
      {"priority", fmt::format("{}", spec.priority)},
      {"after", fmt::format("{}", fmt::join(spec.after, " "))},
      {"submitted", time_text(job.submitted_ms)},
      {"claimed", time_text(job.claimed_ms)},
      {"due", job.state == jobs::JobState::delayed ? time_text(job.due_ms) : ""},
      {"finished", time_text(job.finished_ms)},
      {"updated", time_text(job.updated_ms)},
      {"took", job.seconds > 0 ? duration_text(job.seconds) : ""},
      {"progress",
       job.total_steps > 0 ? fmt::format("{}  step {} of {}", progress_text(job), job.step, job.total_steps) : ""},
      {"eta", job.state == jobs::JobState::active && job.overdue_ms == 0 && job.eta_seconds >= 0
                  ? duration_text(job.eta_seconds)
                  : ""},
      {"loss", number_text(job.loss)},
      {"objective", spec.metric.empty() ? ""
                                        : fmt::format("{} ({}): {}, best {}", one_line(spec.metric, 200),
                                                      spec.maximize ? "maximize" : "minimize",
                                                      number_text(job.objective), number_text(job.best_objective))},
      {"checkpoint", one_line(job.checkpoint, 500)},
      {"stored", stored_text(artifacts)},
      {"not stored", one_line(artifacts.trouble, jobs::Limits::kTrouble)},
      {"log", job.log_lines > 0 ? fmt::format("{} lines: foretime log {}", job.log_lines, spec.id) : ""},
      {"parameters", parameters.empty() ? spec.deferred ? "decided when the job starts" : "" : block(parameters)},
      {"metrics", metrics_text(job.metrics)},
      {"error", job.error.empty() ? "" : block(job.error)},
      {"settings", spec.settings.empty() ? "" : block(settings_text(job))},
  });
}

std::string damage_text(const jobs::SweepRecord& sweep) {
  std::string text;
  for (const auto& [field, why] : sweep.damage) text += (text.empty() ? "" : "; ") + printable_lines(why, " ");
  return text;
}

std::string describe(const jobs::SweepRecord& sweep) {
  const auto& spec = sweep.spec;
  std::string rungs;
  if (spec.halving.enabled())
    rungs = fmt::format("after {} evaluations, the best 1/{} continues", fmt::join(spec.halving.rungs, ", "),
                        spec.halving.eta);
  return format_fields(
      {{"sweep", spec.id},
       {"name", one_line(spec.name, jobs::Limits::kName)},
       {"state", sweep.state},
       {"damaged", damage_text(sweep)},
       {"method", fmt::format("{}, {} trials, seed {}", one_line(spec.method, 40), spec.trials, spec.seed)},
       {"objective", fmt::format("{} ({})", one_line(spec.metric, 200), spec.maximize ? "maximize" : "minimize")},
       {"halving", rungs},
       {"created", time_text(sweep.created_ms)},
       {"jobs", counts_text(sweep.jobs)},
       {"unreadable", sweep.unreadable > 0 ? fmt::format("{} jobs", sweep.unreadable) : ""}});
}

}  // namespace foretime::cli
