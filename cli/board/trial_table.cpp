#include "cli/board/trial_table.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "base/text.h"

namespace foretime::cli {

std::pair<std::optional<double>, std::string> Trial::key(const std::string& sort) const {
  if (sort == "trial") return {static_cast<double>(trial), ""};
  if (sort == "state") return {std::nullopt, state};
  if (sort == "objective") return {objective, ""};
  if (sort == "step") return {step, ""};
  if (sort == "seconds") return {seconds, ""};
  if (sort == "finished") return {finished, ""};
  const auto found = parameters.find(sort);
  if (found == parameters.end()) return {std::nullopt, ""};
  return {parse_number<double>(found->second), found->second};
}

bool Trial::has(const std::string& text) const {
  if (id.find(text) != std::string::npos || name.find(text) != std::string::npos) return true;
  return std::ranges::any_of(parameters,
                             [&](const auto& entry) { return entry.second.find(text) != std::string::npos; });
}

void TrialTable::refresh(jobs::QueueReader& reader, const QueueEvents& events) {
  const bool missed = !loaded_ || next_ < events.first();
  const auto from = missed ? events.end() : next_;
  next_ = events.end();
  std::set<std::string> changed;
  bool others = missed;  // jobs were added or removed
  for (auto number = from; number < events.end(); ++number) {
    const auto& event = events[number];
    others = others || event.event == "submit" || event.event == "forget";
    if (places_.contains(event.job)) changed.insert(event.job);
  }
  loaded_ = false;  // set again when all is read
  if (others) read_ids(reader);
  std::vector<std::string> ids;
  for (const auto& trial : trials_)
    if (missed || trial.state.empty() || trial.state == "active" || changed.contains(trial.id)) ids.push_back(trial.id);
  read(reader, ids);
  loaded_ = true;
}

/// Keeps what is known of those that stay. New ones have no state yet.
void TrialTable::read_ids(jobs::QueueReader& reader) {
  std::vector<Trial> trials;
  const auto before = trials_.size();
  bool is_new = false;
  for (auto& id : reader.ids_of_sweep(sweep_)) {
    const auto known = places_.find(id);
    if (known != places_.end()) {
      trials.push_back(std::move(trials_[known->second]));
    } else {
      is_new = true;
      trials.emplace_back().id = std::move(id);
    }
  }
  if (is_new || trials.size() != before) ++version_;
  trials_ = std::move(trials);
  places_.clear();
  for (size_t i = 0; i < trials_.size(); ++i) places_[trials_[i].id] = i;
}

void TrialTable::read(jobs::QueueReader& reader, const std::vector<std::string>& ids) {
  static const std::vector<std::string> kFields = {"state", "trial",   "name",        "objective", "best_objective",
                                                   "step",  "seconds", "finished_ms", "parameters"};
  std::set<std::string> gone(ids.begin(), ids.end());
  reader.scan(ids, kFields, [&](size_t index, const std::vector<std::string_view>& values) {
    auto& trial = trials_[places_.at(ids[index])];
    const auto before = trial;
    gone.erase(trial.id);
    trial.state = printable_utf8(values[0]);
    trial.trial = parse_number<double>(values[1]).value_or(-1);
    trial.name = printable_utf8(values[2]);
    trial.objective = parse_number<double>(values[3]);
    trial.best = parse_number<double>(values[4]) ? parse_number<double>(values[4]) : trial.objective;
    trial.step = parse_number<double>(values[5]);
    trial.seconds = parse_number<double>(values[6]);
    trial.finished = parse_number<double>(values[7]);
    trial.parameters.clear();
    if (const auto parameters = nlohmann::json::parse(values[8], nullptr, false); parameters.is_object())
      for (const auto& [name, value] : parameters.items())
        if (value.is_string()) trial.parameters[name] = value.get<std::string>();
    if (trial != before) ++version_;
  });
  if (gone.empty()) return;
  ++version_;
  std::erase_if(trials_, [&](const Trial& trial) { return gone.contains(trial.id); });
  places_.clear();
  for (size_t i = 0; i < trials_.size(); ++i) places_[trials_[i].id] = i;
}

}  // namespace foretime::cli
