#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "jobs/error.h"
#include "jobs/sweep/search_space.h"

namespace foretime::jobs {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<Distribution, const char*>, 17> kDistributionNames = {
    {{Distribution::constant, "constant"},
     {Distribution::categorical, "categorical"},
     {Distribution::int_uniform, "int_uniform"},
     {Distribution::uniform, "uniform"},
     {Distribution::q_uniform, "q_uniform"},
     {Distribution::log_uniform, "log_uniform"},
     {Distribution::log_uniform_values, "log_uniform_values"},
     {Distribution::q_log_uniform, "q_log_uniform"},
     {Distribution::q_log_uniform_values, "q_log_uniform_values"},
     {Distribution::inv_log_uniform, "inv_log_uniform"},
     {Distribution::inv_log_uniform_values, "inv_log_uniform_values"},
     {Distribution::normal, "normal"},
     {Distribution::q_normal, "q_normal"},
     {Distribution::log_normal, "log_normal"},
     {Distribution::q_log_normal, "q_log_normal"},
     {Distribution::beta, "beta"},
     {Distribution::q_beta, "q_beta"}}};

}  // namespace

std::string to_string(Distribution distribution) {
  for (const auto& [known, name] : kDistributionNames) {
    if (known == distribution) return name;
  }
  return "unknown";
}

std::vector<std::string> distribution_names() {
  std::vector<std::string> names;
  for (const auto& [known, name] : kDistributionNames) names.emplace_back(name);
  return names;
}

std::optional<Distribution> find_distribution(const std::string& name) {
  for (const auto& [known, text] : kDistributionNames) {
    if (name == text) return known;
  }
  if (name == "categorical_w_probabilities") return Distribution::categorical;
  return std::nullopt;
}

std::string check(const ParameterSpace& p) {
  using D = Distribution;
  const D d = p.distribution;
  if (p.key.empty()) return "found no key";
  if (d == D::constant || d == D::categorical) {
    if (p.values.empty()) return "found no values, expected at least one";
    if (d == D::constant && p.values.size() != 1) return fmt::format("found {} values, expected one", p.values.size());
    if (p.probabilities.empty()) return "";
    if (p.probabilities.size() != p.values.size())
      return fmt::format("found {} probabilities for {} values", p.probabilities.size(), p.values.size());
    double total = 0;
    for (const double probability : p.probabilities) {
      if (!(probability >= 0) || !std::isfinite(probability))
        return fmt::format("found the probability {}, expected at least 0", probability);
      total += probability;
    }
    if (std::abs(total - 1) > 1e-6) return fmt::format("found probabilities that add up to {}, expected 1", total);
    return "";
  }
  for (const double number : {p.min, p.max, p.mu, p.sigma, p.alpha, p.beta, p.q}) {
    if (!std::isfinite(number)) return "found a number that is not finite";
  }
  if (!(p.q > 0)) return fmt::format("found q {}, expected > 0", p.q);
  if (d == D::normal || d == D::q_normal || d == D::log_normal || d == D::q_log_normal)
    return p.sigma >= 0 ? "" : fmt::format("found sigma {}, expected >= 0", p.sigma);
  if (d == D::beta || d == D::q_beta)
    return p.alpha > 0 && p.beta > 0 ? "" : fmt::format("found a {} and b {}, expected > 0", p.alpha, p.beta);
  if (p.min > p.max) return fmt::format("found min {} above max {}", p.min, p.max);
  const bool real_logs = d == D::log_uniform_values || d == D::q_log_uniform_values || d == D::inv_log_uniform_values;
  if (real_logs && !(p.min > 0)) return fmt::format("found min {}, expected > 0, since its logarithm is taken", p.min);
  const bool exponents = d == D::log_uniform || d == D::q_log_uniform || d == D::inv_log_uniform;
  if (exponents && std::max(std::abs(p.min), std::abs(p.max)) > 700) {
    return fmt::format(
        "found min {} and max {}, expected exponents within -700 and 700: {} takes logarithms, {}_values "
        "takes values",
        p.min, p.max, to_string(d), to_string(d));
  }
  if (d == D::int_uniform &&
      (p.min != std::floor(p.min) || p.max != std::floor(p.max) || std::max(std::abs(p.min), std::abs(p.max)) > 0x1p52))
    return fmt::format("found min {} and max {}, expected integers of at most 52 bits", p.min, p.max);
  return "";
}

std::string to_json(const SearchSpace& space) {
  json list = json::array();
  for (const ParameterSpace& p : space) {
    json item = {{"key", p.key}, {"distribution", to_string(p.distribution)}};
    if (!p.values.empty()) item["values"] = p.values;
    if (!p.probabilities.empty()) item["probabilities"] = p.probabilities;
    if (p.values.empty()) {
      item.update({{"min", p.min},
                   {"max", p.max},
                   {"mu", p.mu},
                   {"sigma", p.sigma},
                   {"a", p.alpha},
                   {"b", p.beta},
                   {"q", p.q},
                   {"integer", p.integer}});
    }
    list.push_back(std::move(item));
  }
  return list.dump();
}

SearchSpace parse_search_space(const std::string& text) {
  SearchSpace space;
  try {
    for (const json& item : json::parse(text)) {
      ParameterSpace p;
      p.key = item.at("key").get<std::string>();
      const auto name = item.at("distribution").get<std::string>();
      const auto distribution = find_distribution(name);
      if (!distribution) throw SweepError(fmt::format("{}: found the distribution '{}'", p.key, name.substr(0, 100)));
      p.distribution = *distribution;
      p.values = item.value("values", p.values);
      p.probabilities = item.value("probabilities", p.probabilities);
      p.min = item.value("min", p.min);
      p.max = item.value("max", p.max);
      p.mu = item.value("mu", p.mu);
      p.sigma = item.value("sigma", p.sigma);
      p.alpha = item.value("a", p.alpha);
      p.beta = item.value("b", p.beta);
      p.q = item.value("q", p.q);
      p.integer = item.value("integer", p.integer);
      const std::string problem = check(p);
      if (!problem.empty()) throw SweepError(fmt::format("{}: {}", p.key, problem));
      space.push_back(std::move(p));
    }
  } catch (const json::exception& error) {
    throw SweepError(
        fmt::format("the sweep's definition is damaged, expected a JSON list of parameters ({})", error.what()));
  } catch (const SweepError& error) {
    throw SweepError(fmt::format("the sweep's definition is damaged: {}", error.what()));
  }
  std::sort(space.begin(), space.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return space;
}

}  // namespace foretime::jobs
