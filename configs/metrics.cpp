#include "configs/metrics.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "metrics/metric_table.h"

namespace foretime::configs {
namespace {

const std::vector<std::string> kSets = {"holdout", "valid", "test"};

/// The names that can tell one model from another, and so choose.
std::vector<std::string> choosing_names() {
  std::vector<std::string> names;
  for (const auto& info : metrics::all_metrics())
    if (info.of_runs && info.name != "noise_ceiling_tau") names.emplace_back(info.name);
  return names;
}

std::string_view set_of(std::string_view metric) { return metric.substr(0, metric.find('/')); }

/// Returns " (did you mean SET/NAME?)" with the metric that is most like `metric`; "" if none is like it.
std::string suggested_metric(const std::string& metric) {
  const auto names = choosing_names();
  const auto part = lower_case(metric.substr(metric.rfind('/') + 1));
  const auto has_part = [&](const std::string& name) {
    return part.size() > 2 && name.find(part) != std::string::npos;
  };
  const auto longer = std::ranges::find_if(names, has_part);  // tau of kendall_tau
  const auto name = longer == names.end() ? nearest_name(trimmed(part), names) : *longer;
  const auto set = std::ranges::find_if(kSets, [&](const auto& each) { return metric.starts_with(each.substr(0, 3)); });
  return name.empty() ? "" : fmt::format(" (did you mean {}/{}?)", set == kSets.end() ? "valid" : *set, name);
}

/// Returns the reason why the set of trainer.metric is not evaluated during a run; "" if it is.
std::string unmeasured_set(const Settings& s) {
  const auto set = set_of(s.trainer.metric);
  if (set == "holdout" && s.data.holdout == 0) return "data.holdout is 0; set it to a fraction such as 0.1";
  if (set == "valid" && s.data.valid.empty())
    return s.data.holdout > 0 ? "data.valid names no groups; name some, or choose a metric of holdout"
                              : "data.valid names no groups; name some, or set data.holdout and a metric of holdout";
  if (set == "test" && s.data.test.empty()) return "data.test names no groups";
  return "";
}

std::string conflict(const Settings& s, const std::string& why) {
  return fmt::format("trainer.metric: found {}: {}", s.trainer.metric, why);
}

}  // namespace

bool predicts_runtimes(const LossSettings& loss) {
  return kind_of(loss.type) == LossKind::residual || loss.huber_weight > 0;
}

std::string metric_name_fault(const std::string& metric) {
  const auto names = choosing_names();
  const auto slash = std::min(metric.find('/'), metric.size());
  const bool set = slash < metric.size() && std::ranges::find(kSets, set_of(metric)) != kSets.end();
  if (set && std::ranges::find(names, metric.substr(slash + 1)) != names.end()) return "";
  return fmt::format("found {}, expected SET/METRIC with a set of {} and a metric of {}{}", metric,
                     fmt::join(kSets, ", "), fmt::join(names, ", "), suggested_metric(metric));
}

std::string find_metric_conflict(const Settings& s, bool needed) {
  const auto& trainer = s.trainer;
  if (const auto fault = metric_name_fault(trainer.metric); !fault.empty()) return "trainer.metric: " + fault;
  const auto& info = *metrics::find_metric(trainer.metric);
  if (info.of_predictions && !predicts_runtimes(s.loss))
    return conflict(s, fmt::format("a model trained with loss.type {} ranks and predicts no run times; "
                                   "set loss.huber_weight above 0, or choose a metric such as {}/kendall_tau",
                                   word_of(s.loss.type), set_of(trainer.metric)));
  if (info.name == "contest_score" && s.data.format == DataFormat::programs)
    return conflict(
        s, fmt::format("data.format is programs, which have no such score; choose a metric such as {}/kendall_tau",
                       set_of(trainer.metric)));
  if (info.name == "failure_auc" && s.data.format != DataFormat::programs)
    return conflict(s, fmt::format("only tensor programs may fail; choose a metric such as {}/kendall_tau",
                                   set_of(trainer.metric)));
  if (info.name == "kendall_tau_of_scores" &&
      (trainer.tie_threshold_candidates == 0 || set_of(trainer.metric) != "holdout"))
    return conflict(s, fmt::format("it needs tie thresholds: the set holdout, and trainer.tie_threshold_candidates "
                                   "above 0; choose {}/kendall_tau, which is the same without thresholds",
                                   set_of(trainer.metric)));
  const bool lower = trainer.metric_goal == Goal::minimize;
  if (trainer.metric_goal != Goal::auto_ && lower != info.lower_is_better)
    return fmt::format(
        "trainer.metric_goal: found {} while trainer.metric is {}, which is better when it is {}; set it to auto",
        word_of(trainer.metric_goal), trainer.metric, lower ? "larger" : "smaller");
  const bool stops = trainer.early_stop.patience > 0;
  if (stops && set_of(trainer.metric) == "test")
    return conflict(s,
                    "the test set is evaluated once, at the end, so that trainer.early_stop.patience cannot follow it; "
                    "choose a metric of valid or holdout");
  const bool asked_for = needed || stops || trainer.metric != TrainerSettings().metric;
  const auto unmeasured = unmeasured_set(s);
  return asked_for && !unmeasured.empty() ? conflict(s, unmeasured) : "";
}

std::string metric_warning(const Settings& s) {
  const auto why =
      set_of(s.trainer.metric) == "test" ? "the test set is evaluated once, at the end" : unmeasured_set(s);
  return why.empty() ? ""
                     : fmt::format("trainer.metric {} chooses no checkpoint: {}. The last weights are evaluated",
                                   s.trainer.metric, why);
}

bool maximizes(const TrainerSettings& settings) {
  if (settings.metric_goal != Goal::auto_) return settings.metric_goal == Goal::maximize;
  const auto* info = metrics::find_metric(settings.metric);
  return info == nullptr || !info->lower_is_better;
}

}  // namespace foretime::configs
