#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/message.h"
#include "base/terminal.h"
#include "cli/jobs/job_view.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/error.h"
#include "jobs/sweep/program_trial.h"

namespace foretime::cli {
namespace {

using jobs::JobState;
using jobs::Limits;
using Json = nlohmann::json;

constexpr size_t kDamageShown = 400;  // bytes of what is said of a damaged record
constexpr size_t kPage = 256;         // jobs that are held in memory to be printed as JSON

struct StatusOptions {
  QueueOptions queue;
  std::vector<std::string> ids;
  std::string state, sweep;
  std::string interval;  // text given to --watch
  double watch = 0;      // seconds; 0: once
  bool json = false;
  int64_t limit = 50;
};

/// Holds the output of one call; empty if it was printed. `over` says that nothing in it will change any more.
struct View {
  std::string text;
  bool over = false;
};

std::string dump(const Json& json, bool compact) {
  return json.dump(compact ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Orders the states by their interest to people.
constexpr JobState kOrder[] = {JobState::active, JobState::delayed,   JobState::waiting,
                               JobState::held,   JobState::blocked,   JobState::dead,
                               JobState::failed, JobState::cancelled, JobState::succeeded};

std::vector<std::string> ids_of_queue(jobs::QueueReader& reader, const std::string& state, int64_t limit) {
  std::vector<std::string> ids;
  for (const auto each : kOrder) {
    if (!state.empty() && each != jobs::parse_job_state(state)) continue;
    const auto left = limit - std::ssize(ids);
    if (left <= 0) break;
    const auto more = reader.ids_in(each, left);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

/// Prints {"jobs": [...], `name`: `value`}, a page of jobs at a time.
void print_document(jobs::QueueReader& reader, const std::vector<std::string>& ids, const std::string& name,
                    const Json& value, bool compact) {
  JsonListPrinter printer("jobs", compact);
  for (size_t from = 0; from < ids.size(); from += kPage) {
    const auto begin = ids.begin() + from;
    for (const auto& job : reader.jobs({begin, begin + std::min(kPage, ids.size() - from)}))
      printer.add(cli::to_json(job));
  }
  printer.end({{name, value}});
}

/// Jobs that were asked for, as `status` shows them.
struct ChosenJobs {
  std::map<JobState, int64_t> counts{};  // jobs in each state
  int64_t unreadable = 0;
  std::vector<std::string> shown{};  // jobs to print, not more than `limit`, running ones first
  size_t all = 0;                    // jobs in the requested state
  /// Returns whether nothing in the view will change any more.
  bool over() const {
    int64_t ended = 0, jobs = unreadable;
    for (const auto& [state, count] : counts) {
      jobs += count;
      if (is_final(state)) ended += count;
    }
    return jobs > 0 && ended == jobs;
  }
};

/// Reads the states of all jobs, and no records.
ChosenJobs choose(jobs::QueueReader& reader, std::vector<std::string> ids, const std::string& state, size_t limit) {
  ChosenJobs found;
  const auto states = reader.states(ids, found.unreadable);
  for (const auto each : kOrder) found.counts[each] = 0;
  std::vector<uint32_t> chosen;
  for (uint32_t i = 0; i < ids.size(); ++i) {
    if (states[i]) ++found.counts[*states[i]];
    if (state.empty() || states[i] == jobs::parse_job_state(state)) chosen.push_back(i);
  }
  found.all = chosen.size();
  if (found.all > limit) {
    const auto place = [&](uint32_t i) {
      return states[i] ? std::find(std::begin(kOrder), std::end(kOrder), *states[i]) : std::end(kOrder);
    };
    std::stable_sort(chosen.begin(), chosen.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
    chosen.resize(limit);
  }
  for (const auto i : chosen) found.shown.push_back(std::move(ids[i]));
  return found;
}

/// Puts jobs of the same state in the order of submission, and those of a sweep together, by their trials.
void sort_by_sweep(std::vector<jobs::JobRecord>& jobs) {
  std::map<std::string, int64_t> first_submissions;
  for (const auto& job : jobs) {
    auto& first = first_submissions.emplace(job.spec.sweep, job.submitted_ms).first->second;
    first = std::min(first, job.submitted_ms);
  }
  const auto key = [&](const jobs::JobRecord& job) {
    const auto& sweep = job.spec.sweep;
    return std::tuple(std::find(std::begin(kOrder), std::end(kOrder), job.state),
                      sweep.empty() ? job.submitted_ms : first_submissions[sweep], sweep, job.spec.trial);
  };
  std::ranges::stable_sort(jobs, {}, key);
}

std::string omitted_text(size_t all, size_t shown_jobs) {
  return all > shown_jobs ? fmt::format("  … and {} more (--limit)\n", all - shown_jobs) : "";
}

View view_sweep(jobs::QueueReader& reader, const std::string& id, const StatusOptions& options) {
  auto sweep = reader.sweep(id);
  if (!sweep) throw jobs::JobUnknown("sweep {}: unknown", id);
  const auto found = choose(reader, reader.ids_of_sweep(id), options.state, options.limit);
  sweep->jobs = found.counts;
  sweep->unreadable = found.unreadable;
  View view{"", found.over()};
  if (options.json) {
    print_document(reader, found.shown, "sweep", cli::to_json(*sweep), options.watch > 0);
  } else {
    const auto jobs = reader.jobs(found.shown);
    view.text = folded(cli::describe(*sweep), output_width()) + "\n" + job_table(jobs, output_width()) +
                omitted_text(found.all, jobs.size());
    if (jobs::runs_program(sweep->spec.settings)) view.text += programs_notice(reader.statistics());
  }
  return view;
}

View view_job(jobs::QueueReader& reader, const std::string& id, const StatusOptions& options) {
  const auto job = reader.job(id);
  if (!job) throw jobs::JobUnknown("job {}: unknown (finished jobs are forgotten after a while)", id);
  auto json = cli::to_json(*job);
  json["settings"] = settings_text(*job);
  const auto artifacts = reader.artifacts(id);
  json["artifacts"] = cli::to_json(artifacts);
  return {options.json ? dump(json, options.watch > 0) : folded(cli::describe(*job, artifacts), output_width()),
          is_final(job->state)};
}

View view_jobs(jobs::QueueReader& reader, const StatusOptions& options) {
  const bool chosen = !options.ids.empty();
  std::vector<std::string> ids;
  size_t limit = options.limit;
  size_t named = 0;  // jobs, each of which is shown
  for (const auto& prefix : options.ids) {
    if (!reader.is_sweep(prefix)) {
      ids.push_back(reader.resolve_job(prefix));
      ++named;
      continue;
    }
    for (auto& id : reader.ids_of_sweep(reader.resolve_sweep(prefix))) ids.push_back(std::move(id));
  }
  if (named == options.ids.size()) limit = std::max(limit, named);
  const auto statistics = reader.statistics();
  if (!chosen) ids = ids_of_queue(reader, options.state, options.limit);
  const auto found = choose(reader, std::move(ids), options.state, limit);
  View view{"", chosen && found.over()};
  if (options.json) {
    print_document(reader, found.shown, "queue", cli::to_json(statistics), options.watch > 0);
    return view;
  }
  auto jobs = reader.jobs(found.shown);
  if (!chosen) sort_by_sweep(jobs);
  int64_t all = chosen ? static_cast<int64_t>(found.all) : 0;
  for (const auto& [state, count] : statistics.jobs)
    if (!chosen && (options.state.empty() || state == jobs::parse_job_state(options.state))) all += count;
  if (!jobs.empty()) view.text = job_table(jobs, output_width());
  view.text += omitted_text(all, jobs.size());
  const auto alive = std::count_if(statistics.agents.begin(), statistics.agents.end(),
                                   [&](const auto& agent) { return is_heard(agent, statistics); });
  view.text += fmt::format("{}; {} agents{}\n", counts_text(statistics.jobs), alive,
                           statistics.paused ? "; the queue is PAUSED (foretime resume)" : "");
  view.text += programs_notice(statistics);
  for (const auto& what : statistics.unreadable)
    view.text += fmt::format("damaged: {}\n", one_line(what, kDamageShown));
  for (const auto& agent : statistics.agents)
    if (!agent.trouble.empty() && is_heard(agent, statistics))
      view.text += fmt::format("agent {} claims nothing: {}\n", one_line(agent.name, 60),
                               one_line(agent.trouble, Limits::kTrouble));
  return view;
}

View look(jobs::QueueReader& reader, const StatusOptions& options) {
  if (!options.sweep.empty()) return view_sweep(reader, reader.resolve_sweep(options.sweep), options);
  if (options.ids.size() == 1) {
    const auto& prefix = options.ids.front();
    if (reader.is_sweep(prefix)) return view_sweep(reader, reader.resolve_sweep(prefix), options);
    const auto id = reader.resolve_job(prefix);
    if (!options.state.empty())
      throw jobs::JobsError(
          "--state {}: found job {}, but a single job is shown in any state; "
          "leave --state out, give its sweep, or list all jobs in that state: foretime status --state {}",
          options.state, id, options.state);
    return view_job(reader, id, options);
  }
  return view_jobs(reader, options);
}

std::string clock_text() {
  const auto now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:%H:%M:%S}", local);
}

/// Prints the time above what is shown again and again; on a terminal, it replaces what was there.
void show(const std::string& text, const StatusOptions& options) {
  constexpr const char* kClear = "\033[H\033[2J";
  if (options.watch > 0 && !options.json) fmt::print("{}{}\n", output_width() > 0 ? kClear : "", clock_text());
  fmt::print("{}", text);
  flush_output();
}

void run(const StatusOptions& options) {
  if (!options.state.empty()) jobs::parse_job_state(options.state);
  if (!options.sweep.empty() && !options.ids.empty())
    throw jobs::JobsError(
        "--sweep {}: found ids as well, expected one of the two; `foretime status {} {}` shows the jobs of both",
        options.sweep, options.sweep, fmt::join(options.ids, " "));
  QueueAccess access(options.queue, Start::to_read);
  auto view = look(access.reader(), options);
  show(view.text, options);
  for (const auto& warning : access.warnings()) print_message("warning: {}\n", warning);
  while (options.watch > 0 && !view.over) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.watch));
    try {
      view = look(access.reader(), options);
      show(view.text, options);
    } catch (const jobs::RedisUnavailable& error) {
      print_message("{}; trying again\n", error.what());
    }
  }
}

}  // namespace

void add_status_command(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  auto* command = app.add_subcommand("status", "Show the queue, one sweep with its trials, or one job in full");
  typed_option(*command, "id", options->ids, "ids of jobs or sweeps; the first digits are enough", "ID");
  command
      ->add_flag("--watch{2}", options->interval,
                 "show again and again, every 2 s or as --watch=SECONDS says, until what was named has ended")
      ->type_name("");
  command->add_flag("--json", options->json, "print JSON; with --watch one document a line");
  typed_option(*command, "--state", options->state,
               "only jobs in this state: blocked, waiting, delayed, held, active, succeeded, failed, cancelled, dead",
               "STATE");
  typed_option(*command, "--sweep", options->sweep, "only this sweep", "ID");
  shown_option(*command, "--limit", options->limit, "show at most so many jobs",
               CLI::Range(int64_t{1}, int64_t{1000000}), "N");
  add_queue_options(*command, options->queue);
  command->footer(
      "Examples:\n"
      "  foretime status                       the queue\n"
      "  foretime status 3fa9                  the job or sweep whose id begins so, in full\n"
      "  foretime status 3fa9 --watch=5        until it has ended\n"
      "  foretime status --state dead --json   for programs");
  command->callback([options] {
    if (!options->interval.empty() &&
        (!CLI::detail::lexical_cast(options->interval, options->watch) || !(options->watch > 0))) {
      throw CLI::ValidationError("--watch", "found " + options->interval + ", expected seconds above 0");
    }
    run(*options);
  });
}

}  // namespace foretime::cli
