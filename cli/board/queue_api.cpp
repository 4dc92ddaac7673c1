#include "cli/board/queue_api.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/numbers.h"
#include "base/text.h"
#include "cli/board/importance.h"
#include "cli/board/run_api.h"
#include "cli/jobs/job_history.h"
#include "cli/jobs/job_view.h"
#include "jobs/error.h"
#include "server/http/http.h"

namespace foretime::cli {

using Json = nlohmann::json;
using jobs::JobState;
using server::HttpError;

namespace {

constexpr int64_t kSweeps = 50, kJobs = 50, kActive = 5000;
constexpr size_t kBestPoints = 500;

Json json_number(const std::optional<double>& value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

/// Returns a count of 0 for every state, like in `status`.
std::map<JobState, int64_t> no_jobs() {
  std::map<JobState, int64_t> counts;
  for (int state = 0; state <= static_cast<int>(JobState::dead); ++state) counts[static_cast<JobState>(state)] = 0;
  return counts;
}

/// [[when a trial ended, the best value of those that had ended by then], …], thinned from the front.
Json best_so_far(const std::vector<Trial>& all, bool maximize) {
  std::vector<const Trial*> trials;
  for (const auto& trial : all)
    if (trial.finished && trial.best && std::isfinite(*trial.best)) trials.push_back(&trial);
  std::ranges::stable_sort(trials, {}, [](const Trial* trial) { return *trial->finished; });
  std::vector<std::pair<double, double>> best;
  for (const auto* trial : trials) {
    const bool better =
        best.empty() || (maximize ? *trial->best > best.back().second : *trial->best < best.back().second);
    if (better) best.emplace_back(*trial->finished, *trial->best);
  }
  if (!best.empty() && best.back().first < *trials.back()->finished)
    best.emplace_back(*trials.back()->finished, best.back().second);
  Json steps = Json::array();
  for (size_t i = best.size() > kBestPoints ? best.size() - kBestPoints : 0; i < best.size(); ++i)
    steps.push_back({best[i].first, best[i].second});
  return steps;
}

/// Returns the importance of each parameter of the successful trials, by falling share.
Json importances(const std::vector<Trial>& all) {
  std::vector<const Trial*> trials;
  std::set<std::string> names;
  for (const auto& trial : all) {
    if (trial.state != "succeeded" || !trial.objective || !std::isfinite(*trial.objective)) continue;
    trials.push_back(&trial);
    for (const auto& [name, value] : trial.parameters) names.insert(name);
  }
  std::vector<double> objectives;
  for (const auto* trial : trials) objectives.push_back(*trial->objective);
  std::vector<Importance> found;
  for (const auto& name : names) {
    std::vector<std::optional<std::string>> values;
    for (const auto* trial : trials) {
      const auto value = trial->parameters.find(name);
      values.push_back(value == trial->parameters.end() ? std::nullopt : std::optional(value->second));
    }
    if (auto importance = importance_of(name, values, objectives)) found.push_back(std::move(*importance));
  }
  std::ranges::stable_sort(found, std::greater(), &Importance::share);
  Json json = Json::array();
  for (const auto& each : found)
    json.push_back({{"parameter", each.parameter},
                    {"share", each.share},
                    {"rank_correlation", json_number(each.rank_correlation)},
                    {"trials", each.trials}});
  return json;
}

/// The series of one name as the pages take it; null where there is none, or it cannot be read.
Json curve_of(const jobs::JobRecord& job) {
  try {
    const auto history = history::to_json(history::unpack(job.history));
    const auto found = history.find(job.spec.metric);
    return found == history.end() ? Json() : *found;
  } catch (const history::HistoryError&) {
    return {};
  }
}

}  // namespace

QueueApi::QueueApi(QueueAccess access)
    : access_(std::move(access)), events_(access_.client(), "{" + access_.settings().prefix + "}:events") {}

QueueApi::QueueApi(const QueueOptions& options, Start start) : QueueApi(QueueAccess(options, start)) {}

std::pair<bool, std::string> QueueApi::resolve(const std::string& prefix) {
  auto& reader = access_.reader();
  if (reader.is_sweep(prefix)) return {true, reader.resolve_sweep(prefix)};
  return {false, reader.resolve_job(prefix)};
}

Change QueueApi::change(const std::string& action, const std::string& id, int64_t priority) {
  if (action == "cancel") return cancel(access_, id);
  if (action == "pause") return pause(access_, id);
  if (action == "resume") return resume(access_, id);
  if (action == "retry") return retry(access_, id);
  if (action == "priority") return set_priority(access_, id, priority);
  throw HttpError{400, "bad_input",
                  "action: found '" + printable_utf8(action.substr(0, 40)) +
                      "', expected cancel, pause, resume, retry or priority"};
}

Json QueueApi::queue() {
  auto& reader = access_.reader();
  const auto statistics = reader.statistics();
  Json json = {{"queue", to_json(statistics)}, {"sweeps", Json::array()}, {"jobs", Json::array()}, {"name", name()}};
  for (const auto& id : reader.sweeps(kSweeps)) {
    auto sweep = reader.sweep(id);
    if (!sweep) continue;
    trials_of(id);
    sweep->jobs = counts_of(id, sweep->unreadable);
    json["sweeps"].push_back(to_json(*sweep));
  }
  std::vector<std::string> ids;
  for (const auto state : {JobState::active, JobState::delayed, JobState::waiting, JobState::dead, JobState::failed,
                           JobState::cancelled, JobState::succeeded}) {
    const auto left = kJobs - std::ssize(ids);
    if (left <= 0) break;
    for (auto& id : reader.ids_in(state, left)) ids.push_back(std::move(id));
  }
  for (const auto& job : reader.jobs(ids)) json["jobs"].push_back(to_json(job));
  json["warnings"] = access_.warnings();  // also of what was left out of these lists
  return json;
}

jobs::SweepRecord QueueApi::sweep_named(const std::string& prefix) {
  const auto id = access_.reader().resolve_sweep(prefix);
  auto sweep = access_.reader().sweep(id);
  if (!sweep) throw HttpError{404, "not_found", "sweep " + id + ": unknown"};
  return *std::move(sweep);
}

const std::vector<Trial>& QueueApi::trials_of(const std::string& sweep) {
  events_.refresh();
  if (!tables_.contains(sweep) && tables_.size() >= kTables) {
    const auto oldest = std::ranges::min_element(tables_, {}, [](const auto& entry) { return entry.second.used; });
    tables_.erase(oldest);
  }
  auto& kept = tables_.try_emplace(sweep, sweep).first->second;
  kept.used = ++uses_;
  kept.table.refresh(access_.reader(), events_);
  return kept.table.trials();
}

template <class Make>
Json QueueApi::cached(const std::string& sweep, CachedAnswer CachedSweep::*what, const Make& make) {
  using Clock = std::chrono::steady_clock;
  const auto& trials = trials_of(sweep);
  auto& kept = tables_.at(sweep);
  auto& found = kept.*what;
  const auto begin = Clock::now();
  if (found.answer && (found.version == kept.table.version() || begin < found.until)) return *found.answer;
  auto answer = std::make_shared<const Json>(make(trials));
  const auto end = Clock::now();
  found = {kept.table.version(), end + 9 * (end - begin), answer};
  return *answer;
}

std::map<JobState, int64_t> QueueApi::counts_of(const std::string& sweep, int64_t& unreadable) {
  auto& kept = tables_.at(sweep);
  auto& counted = kept.counted;
  if (!counted.known || counted.version != kept.table.version()) {
    counted = {true, kept.table.version(), no_jobs(), 0};
    std::map<std::string_view, int64_t> texts;
    for (const auto& trial : kept.table.trials()) ++texts[trial.state];
    for (const auto& [text, count] : texts) {
      if (const auto state = configs::choice_named<JobState>(std::string(text))) counted.jobs[*state] += count;
      else counted.unreadable += count;
    }
  }
  unreadable += counted.unreadable;
  return counted.jobs;
}

/// Places of the trials that a query wants, in its order.
static std::vector<uint32_t> chosen(const std::vector<Trial>& all, const TrialQuery& query) {
  struct Row {
    double number;
    uint32_t place;
  };
  struct Text {
    std::string text;
    uint32_t place;
  };
  std::vector<Row> numbers;
  std::vector<Text> texts;
  std::vector<uint32_t> places;
  for (uint32_t i = 0; i < all.size(); ++i) {
    const auto& trial = all[i];
    if ((!query.state.empty() && trial.state != query.state) || (!query.search.empty() && !trial.has(query.search)))
      continue;
    auto [number, text] = trial.key(query.sort);
    if (number && !std::isnan(*number)) numbers.push_back({*number, i});
    else if (!text.empty()) texts.push_back({std::move(text), i});
    else places.push_back(i);
  }
  // Numbers, then texts; what has no value comes last in either direction.
  const auto sorted = [&](auto& rows, auto key) {
    if (query.descending) std::ranges::stable_sort(rows, std::greater(), key);
    else std::ranges::stable_sort(rows, std::less(), key);
  };
  sorted(numbers, &Row::number);
  sorted(texts, &Text::text);
  std::vector<uint32_t> found;
  found.reserve(numbers.size() + texts.size() + places.size());
  for (const auto& row : numbers) found.push_back(row.place);
  for (const auto& row : texts) found.push_back(row.place);
  found.insert(found.end(), places.begin(), places.end());
  return found;
}

const std::vector<uint32_t>& QueueApi::order_of(const std::string& sweep, const TrialQuery& query) {
  auto& kept = tables_.at(sweep);
  auto& order = kept.order;
  if (!order.known || order.version != kept.table.version() || order.query.sort != query.sort ||
      order.query.descending != query.descending || order.query.state != query.state ||
      order.query.search != query.search)
    order = {true, kept.table.version(), query, chosen(kept.table.trials(), query)};
  return order.places;
}

Json QueueApi::agents() {
  auto& reader = access_.reader();
  const auto statistics = reader.statistics();
  auto agents = to_json(statistics)["agents"];
  std::map<std::string, Json*> by_name;
  for (size_t i = 0; i < agents.size(); ++i) {
    agents[i]["used"] = {{"cpus", 0}, {"gpus", 0}};
    agents[i]["running"] = Json::array();
    agents[i]["heard"] = is_heard(statistics.agents[i], statistics);
    by_name[statistics.agents[i].name] = &agents[i];
  }
  const auto ids = reader.ids_in(JobState::active, kActive);
  reader.scan(ids, {"agent", "ranks", "attempt_ranks", "cpus", "gpus", "name", "state"},
              [&](size_t index, const std::vector<std::string_view>& values) {
                const auto found = by_name.find(std::string(values[0]));
                if (found == by_name.end() || values[6] != "active") return;
                const auto whole = [&](size_t i, double missing) {
                  return static_cast<int64_t>(parse_number<double>(values[i]).value_or(missing));
                };
                auto& agent = *found->second;
                const auto ranks = whole(2, 0) > 0 ? whole(2, 0) : whole(1, 1);
                for (const auto& [name, used] : {std::pair{"cpus", whole(3, 1)}, std::pair{"gpus", whole(4, 0)}})
                  agent["used"][name] = agent["used"][name].get<int64_t>() + ranks * used;
                agent["running"].push_back({{"id", ids[index]}, {"name", printable_utf8(values[5])}});
              });
  return {{"now_ms", statistics.now_ms}, {"agents", std::move(agents)}};
}

std::string QueueApi::trials_csv(const std::string& prefix, const TrialQuery& query) {
  const auto spec = sweep_named(prefix).spec;
  const auto& all = trials_of(spec.id);
  std::set<std::string> names;
  for (const auto& trial : all)
    for (const auto& [name, value] : trial.parameters) names.insert(name);
  std::string text = "trial,id,state," + spreadsheet_field(spec.metric) + ",best,step,seconds,finished_ms";
  for (const auto& name : names) text += "," + spreadsheet_field(name);
  text += "\n";
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format(",{}", *value) : ","; };
  for (const auto place : order_of(spec.id, query)) {
    const auto* trial = &all[place];
    text += fmt::format("{},{},{}", trial->trial, trial->id, spreadsheet_field(trial->state)) +
            number(trial->objective) + number(trial->best) + number(trial->step) + number(trial->seconds) +
            (trial->finished ? fmt::format(",{:.0f}", *trial->finished) : ",");
    for (const auto& name : names) {
      const auto value = trial->parameters.find(name);
      text += "," + (value == trial->parameters.end() ? "" : spreadsheet_field(value->second));
    }
    text += "\n";
  }
  return text;
}

Json QueueApi::sweep(const std::string& prefix, const TrialQuery& query) {
  auto sweep = sweep_named(prefix);
  const auto& all = trials_of(sweep.spec.id);
  sweep.jobs = counts_of(sweep.spec.id, sweep.unreadable);
  const auto& trials = order_of(sweep.spec.id, query);
  const auto size = std::ssize(trials);
  const auto from = std::clamp<int64_t>(query.from, 0, size);
  const auto to = std::min(size, from + std::clamp<int64_t>(query.limit, 1, kMostRows));
  std::vector<std::string> ids;
  for (auto i = from; i < to; ++i) ids.push_back(all[trials[i]].id);
  Json json = {{"sweep", to_json(sweep)}, {"total", size}, {"from", from}, {"trials", Json::array()}};
  for (const auto& job : access_.reader().jobs(ids)) {
    auto row = to_json(job);
    row["curve"] = curve_of(job);
    json["trials"].push_back(std::move(row));
  }
  return json;
}

Json QueueApi::overview(const std::string& prefix) {
  const auto spec = sweep_named(prefix).spec;
  return cached(spec.id, &CachedSweep::overview, [&](const std::vector<Trial>& trials) -> Json {
    Json points = Json::array();
    const size_t stride = trials.size() / kPlotted + 1;
    for (size_t i = 0; i < trials.size(); i += stride) {
      const auto& trial = trials[i];
      points.push_back({{"id", trial.id},
                        {"trial", trial.trial},
                        {"state", trial.state},
                        {"objective", json_number(trial.objective)},
                        {"finished_ms", json_number(trial.finished)},
                        {"parameters", trial.parameters}});
    }
    return {{"sweep", spec.id},
            {"points", std::move(points)},
            {"best", best_so_far(trials, spec.maximize)},
            {"importance", importances(trials)},
            {"every", stride}};
  });
}

Json QueueApi::curves(const std::string& prefix) {
  const auto spec = sweep_named(prefix).spec;
  return cached(spec.id, &CachedSweep::curves, [&](const std::vector<Trial>& all) -> Json {
    std::vector<const Trial*> trials;
    for (const auto& trial : all)
      if (trial.objective) trials.push_back(&trial);
    // The best ones, and of the others evenly many.
    const auto best = [&](const Trial* trial) { return spec.maximize ? -*trial->best : *trial->best; };
    std::ranges::stable_sort(trials, {}, best);
    const size_t total = trials.size(), stride = total / kCurves + 1;
    std::vector<std::string> ids;
    for (size_t i = 0; i < total; ++i)
      if (i < kBestCurves || i % stride == 0) ids.push_back(trials[i]->id);
    Json curves = Json::array();
    for (const auto& job : access_.reader().jobs(ids)) {
      auto curve = curve_of(job);
      if (curve.is_null()) continue;
      curves.push_back(
          {{"id", job.spec.id}, {"trial", job.spec.trial}, {"state", state_text(job)}, {"curve", std::move(curve)}});
    }
    return {{"sweep", spec.id},
            {"metric", printable_utf8(spec.metric)},
            {"goal", spec.maximize ? "maximize" : "minimize"},
            {"rungs", spec.halving.rungs},
            {"curves", std::move(curves)},
            {"best",
             total == 0
                 ? Json()
                 : Json{{"id", trials[0]->id}, {"trial", trials[0]->trial}, {"value", json_number(trials[0]->best)}}},
            {"total", total}};
  });
}

Json QueueApi::activity(int64_t minutes) {
  events_.refresh();
  const auto statistics = access_.reader().statistics();
  auto json = activity_of(events_.all(), statistics.jobs, statistics.now_ms, minutes);
  json["demand"] = json["damaged"] = Json::array();
  try {
    for (const auto& [demand, jobs] : access_.queue().waiting())
      json["demand"].push_back({{"cpus", demand.cpus}, {"gpus", demand.gpus}, {"jobs", jobs}});
  } catch (const jobs::RedisRefused& error) {  // a key of another type
    json["damaged"].push_back(printable_utf8(error.what()));
  }
  return json;
}

void add_history(Json& json, const jobs::JobRecord& job, const std::filesystem::path& runs) {
  try {
    const auto found = history_of(job, runs);
    json["history"] = curves_of(found.history);
    json["history_source"] = found.source;
  } catch (const history::HistoryError& error) {
    json["history"] = Json::object();
    json["history_source"] = printable_utf8(error.what());
  }
}

Json QueueApi::job(const std::string& prefix, jobs::JobRecord& record) {
  auto& reader = access_.reader();
  const auto id = reader.resolve_job(prefix);
  const auto job = reader.job(id);
  if (!job) throw HttpError{404, "not_found", "job " + id + ": unknown (finished jobs are forgotten after a while)"};
  auto json = to_json(*job);
  json["settings"] = settings_text(*job);
  json["artifacts"] = to_json(reader.artifacts(id));
  events_.refresh();
  json["events"] = events_of(events_.all(), id);
  record = *job;
  return json;
}

Json QueueApi::log(const std::string& prefix) {
  auto& reader = access_.reader();
  int64_t total = 0;
  Json lines = Json::array();
  for (const auto& line : reader.log(reader.resolve_job(prefix), total)) lines.push_back(printable_utf8(line));
  return {{"total", total}, {"lines", std::move(lines)}};
}

}  // namespace foretime::cli
