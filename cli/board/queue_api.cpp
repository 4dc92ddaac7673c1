#include "cli/board/queue_api.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/jobs/job_history.h"
#include "cli/jobs/job_view.h"
#include "jobs/error.h"
#include "server/http.h"

namespace foretime::cli {

using Json = nlohmann::json;
using jobs::JobState;
using server::HttpError;

namespace {

constexpr int64_t kSweeps = 50, kJobs = 50;
constexpr size_t kBestPoints = 500;

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Json json_number(const std::optional<double>& value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

/// Of every state, as `status` has it.
std::map<JobState, int64_t> no_jobs() {
  std::map<JobState, int64_t> counts;
  for (int state = 0; state <= static_cast<int>(JobState::dead); ++state) counts[static_cast<JobState>(state)] = 0;
  return counts;
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

/// What sorting and plots need of a trial.
struct QueueApi::Trial {
  std::string id{}, name{}, state{};
  int64_t trial = -1;
  std::optional<double> objective{}, best{}, step{}, seconds{}, finished{};
  Json parameters = Json::object();

  /// A text or a number to sort by; numbers come first.
  std::pair<std::optional<double>, std::string> key(const std::string& sort) const {
    if (sort == "trial") return {static_cast<double>(trial), ""};
    if (sort == "state") return {std::nullopt, state};
    if (sort == "objective") return {objective, ""};
    if (sort == "step") return {step, ""};
    if (sort == "seconds") return {seconds, ""};
    if (sort == "finished") return {finished, ""};
    const auto found = parameters.find(sort);
    if (found == parameters.end() || !found->is_string()) return {std::nullopt, ""};
    const auto text = found->get<std::string>();
    return {number_of(text), text};
  }
  bool has(const std::string& text) const {
    if (id.find(text) != std::string::npos || name.find(text) != std::string::npos) return true;
    return std::ranges::any_of(parameters, [&](const Json& value) {
      return value.is_string() && value.get_ref<const std::string&>().find(text) != std::string::npos;
    });
  }
};

QueueApi::QueueApi(const QueueOptions& options) : access_(options, Start::to_read), runs_(options.runs) {}

Json QueueApi::queue() {
  auto& reader = access_.reader();
  const auto statistics = reader.statistics();
  Json json = {{"queue", to_json(statistics)}, {"sweeps", Json::array()}, {"jobs", Json::array()}, {"name", name()}};
  json["warnings"] = access_.warnings();
  for (const auto& id : reader.sweeps(kSweeps)) {
    auto sweep = reader.sweep(id);
    if (!sweep) continue;
    sweep->jobs = no_jobs();
    for (const auto& state : reader.states(reader.ids_of_sweep(id), sweep->unreadable)) {
      if (state) ++sweep->jobs[*state];
    }
    json["sweeps"].push_back(to_json(*sweep));
  }
  std::vector<std::string> ids;
  for (const auto state : {JobState::active, JobState::delayed, JobState::waiting, JobState::dead, JobState::failed,
                           JobState::cancelled, JobState::succeeded}) {
    const auto left = kJobs - static_cast<int64_t>(ids.size());
    if (left <= 0) break;
    for (auto& id : reader.ids_in(state, left)) ids.push_back(std::move(id));
  }
  for (const auto& job : reader.jobs(ids)) json["jobs"].push_back(to_json(job));
  return json;
}

std::vector<QueueApi::Trial> QueueApi::trials_of(const std::vector<std::string>& ids) {
  static const std::vector<std::string> kFields = {"state", "trial",   "name",        "objective", "best_objective",
                                                   "step",  "seconds", "finished_ms", "parameters"};
  std::vector<Trial> trials;
  access_.reader().scan(ids, kFields, [&](size_t index, const std::vector<std::string_view>& values) {
    auto& trial = trials.emplace_back();
    trial.id = ids[index];
    trial.state = printable_utf8(values[0]);
    trial.trial = static_cast<int64_t>(number_of(values[1]).value_or(-1));
    trial.name = printable_utf8(values[2]);
    trial.objective = number_of(values[3]);
    trial.best = number_of(values[4]) ? number_of(values[4]) : trial.objective;
    trial.step = number_of(values[5]);
    trial.seconds = number_of(values[6]);
    trial.finished = number_of(values[7]);
    auto parameters = Json::parse(values[8], nullptr, false);
    if (parameters.is_object()) trial.parameters = std::move(parameters);
  });
  return trials;
}

Json QueueApi::sweep(const std::string& prefix, const TrialQuery& query) {
  auto& reader = access_.reader();
  const auto id = reader.resolve_sweep(prefix);
  auto sweep = reader.sweep(id);
  if (!sweep) throw HttpError{404, "not_found", "sweep " + id + ": unknown"};
  auto trials = trials_of(reader.ids_of_sweep(id));
  sweep->jobs = no_jobs();
  for (const auto& trial : trials) {
    if (const auto state = configs::choice_named<JobState>(trial.state)) {
      ++sweep->jobs[*state];
    } else {
      ++sweep->unreadable;
    }
  }
  std::erase_if(trials, [&](const Trial& trial) {
    return (!query.state.empty() && trial.state != query.state) || (!query.search.empty() && !trial.has(query.search));
  });
  // What has no value comes last in either direction.
  std::ranges::stable_sort(trials, [&](const Trial& a, const Trial& b) {
    const auto [x, left] = a.key(query.sort);
    const auto [y, right] = b.key(query.sort);
    if (x && y) return query.descending ? *x > *y : *x < *y;
    if (x || y) return x.has_value();
    if (left.empty() || right.empty()) return !left.empty() && right.empty();
    return query.descending ? left > right : left < right;
  });
  const auto size = static_cast<int64_t>(trials.size());
  const auto from = std::clamp<int64_t>(query.from, 0, size);
  const auto to = std::min(size, from + std::clamp<int64_t>(query.limit, 1, kMostRows));
  std::vector<std::string> ids;
  for (auto i = from; i < to; ++i) ids.push_back(trials[static_cast<size_t>(i)].id);
  Json json = {{"sweep", to_json(*sweep)}, {"total", size}, {"from", from}, {"trials", Json::array()}};
  for (const auto& job : reader.jobs(ids)) {
    auto row = to_json(job);
    row["curve"] = curve_of(job);
    json["trials"].push_back(std::move(row));
  }
  return json;
}

Json QueueApi::overview(const std::string& prefix) {
  auto& reader = access_.reader();
  const auto id = reader.resolve_sweep(prefix);
  const auto sweep = reader.sweep(id);
  if (!sweep) throw HttpError{404, "not_found", "sweep " + id + ": unknown"};
  auto trials = trials_of(reader.ids_of_sweep(id));
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
  std::erase_if(trials,
                [](const Trial& trial) { return !trial.finished || !trial.best || !std::isfinite(*trial.best); });
  std::ranges::stable_sort(trials, {}, [](const Trial& trial) { return *trial.finished; });
  std::vector<std::pair<double, double>> best;
  for (const auto& trial : trials) {
    const bool better =
        best.empty() || (sweep->spec.maximize ? *trial.best > best.back().second : *trial.best < best.back().second);
    if (better) best.emplace_back(*trial.finished, *trial.best);
  }
  if (!best.empty() && best.back().first < *trials.back().finished)
    best.emplace_back(*trials.back().finished, best.back().second);
  Json steps = Json::array();
  for (size_t i = best.size() > kBestPoints ? best.size() - kBestPoints : 0; i < best.size(); ++i)
    steps.push_back({best[i].first, best[i].second});
  return {{"sweep", id}, {"points", std::move(points)}, {"best", std::move(steps)}, {"every", stride}};
}

Json QueueApi::job(const std::string& prefix) {
  auto& reader = access_.reader();
  const auto id = reader.resolve_job(prefix);
  const auto job = reader.job(id);
  if (!job) throw HttpError{404, "not_found", "job " + id + ": unknown (finished jobs are forgotten after a while)"};
  auto json = to_json(*job);
  json["settings"] = job->spec.settings;
  json["artifacts"] = to_json(reader.artifacts(id));
  try {
    const auto found = history_of(*job, runs_);
    json["history"] = history::to_json(found.history);
    json["history_source"] = found.source;
  } catch (const history::HistoryError& error) {
    json["history"] = Json::object();
    json["history_source"] = error.what();
  }
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
