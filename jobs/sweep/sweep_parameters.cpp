#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/fields.h"
#include "configs/load.h"
#include "jobs/error.h"
#include "jobs/sweep/search_space.h"
#include "jobs/sweep/sweep_document.h"

namespace foretime::jobs {
namespace {

using configs::YamlEntry;

using D = Distribution;

const std::vector<std::string> kParameterKeys = {
    "value", "values", "probabilities", "distribution", "min", "max", "mu", "sigma", "a", "b", "q", "parameters"};

/// Names of distributions in Optuna, Ray Tune and Hyperopt, and what is written here instead.
constexpr std::pair<std::string_view, std::string_view> kNamesElsewhere[] = {
    {"loguniform", "log_uniform_values (min and max are values)"},
    {"log", "log_uniform_values (min and max are values)"},
    {"reverse_loguniform", "inv_log_uniform_values (min and max are values)"},
    {"qloguniform", "q_log_uniform_values (min, max and q are values)"},
    {"lograndint", "q_log_uniform_values with q: 1"},
    {"qlograndint", "q_log_uniform_values"},
    {"choice", "categorical with values"},
    {"pchoice", "categorical with values and probabilities"},
    {"grid_search", "categorical with values, and method: grid"},
    {"suggest_categorical", "categorical with values"},
    {"CategoricalDistribution", "categorical with values"},
    {"randint", "int_uniform (both ends included)"},
    {"uniformint", "int_uniform (both ends included)"},
    {"int", "int_uniform (both ends included)"},
    {"suggest_int", "int_uniform (both ends included)"},
    {"IntDistribution", "int_uniform (both ends included)"},
    {"qrandint", "q_uniform"},
    {"float", "uniform, or log_uniform_values for log=True"},
    {"suggest_float", "uniform, or log_uniform_values for log=True"},
    {"FloatDistribution", "uniform, or log_uniform_values for log=True"},
    {"quniform", "q_uniform"},
    {"randn", "normal"},
    {"qrandn", "q_normal"},
    {"gaussian", "normal"},
    {"lognormal", "log_normal (mu and sigma of the logarithm)"},
    {"qnormal", "q_normal"},
    {"qlognormal", "q_log_normal"}};

/// Holds an error and a warning about improbable numbers of a logarithmic distribution.
struct Doubt {
  std::string error, warning;
};
Doubt doubt_of(const ParameterSpace& p) {
  const D family = family_of(p.distribution);
  const bool exponents = family == D::log_uniform || family == D::inv_log_uniform;
  const bool values = family == D::log_uniform_values || family == D::inv_log_uniform_values;
  if ((!exponents && !values) || p.min >= p.max) return {};
  const auto low = quantile(p, 0), high = quantile(p, 1);
  const auto range = fmt::format("found min {:g} and max {:g}{}, so values from {:.4g} to {:.4g}", p.min, p.max,
                                 exponents ? ", which are exponents" : "", low, high);
  const auto advice = fmt::format("{}_values takes the values themselves", to_string(p.distribution));
  if (exponents && p.min >= 0 && p.max <= 1) return {fmt::format("{}; {}", range, advice), ""};
  if (exponents && high > 1e12) return {"", fmt::format("{}; {}", range, advice)};
  if (high < 2 * low) return {"", fmt::format("{}, less than a factor of 2{}", range, exponents ? "; " + advice : "")};
  return {};
}

/// Lists the keys that a distribution takes besides `distribution`; the first `needed` ones are required.
struct Shape {
  std::vector<std::string> keys;
  size_t needed;
};

Shape shape_of(D d) {
  const D family = family_of(d);
  Shape shape{{"min", "max"}, 2};
  if (family == D::constant) shape = {{"value"}, 1};
  if (family == D::categorical) shape = {{"values", "probabilities"}, 1};
  if (family == D::normal || family == D::log_normal) shape = {{"mu", "sigma"}, 0};
  if (family == D::beta) shape = {{"a", "b"}, 0};
  if (is_quantized(d)) shape.keys.emplace_back("q");
  return shape;
}

const YamlEntry* find(const std::vector<YamlEntry>& items, const std::string& prefix, const std::string& name) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const YamlEntry& e) { return e.key == prefix + name; });
  return found == items.end() ? nullptr : &*found;
}

class Reader {
 public:
  Reader(const std::string& origin, ParameterNotes& notes, const ParameterNames& names)
      : origin_(origin), notes_(notes), names_(names) {}

  void read_map(const YamlEntry& map, const std::string& prefix) {
    const std::vector<YamlEntry> items = items_of(map, origin_, prefix, {});
    if (items.empty()) fail(map, "found no parameters, expected at least one setting to sweep");
    for (const YamlEntry& item : items) read_parameter(item);
  }
  SearchSpace space;

 private:
  void read_parameter(const YamlEntry& parameter) {
    if (!parameter.node.IsMap()) {
      std::string found = parameter.node.IsNull() ? "nothing" : "a list";
      if (parameter.node.IsScalar()) found = fmt::format("'{}'", parameter.node.Scalar().substr(0, 100));
      fail(parameter,
           fmt::format("found {}, expected a map such as {{value: …}}, {{values: […]}} or {{min: …, max: …}}", found));
    }
    const std::string prefix = parameter.key + ".";
    if (const YAML::Node nested = parameter.node["parameters"]) {
      const std::vector<YamlEntry> items = items_of(parameter, origin_, prefix, {"parameters"});
      notes_.nested.push_back(parameter.key);
      return read_map(items.at(0), prefix);
    }
    const std::vector<YamlEntry> items = items_of(parameter, origin_, prefix, kParameterKeys);
    YamlEntry renamed = parameter;
    if (const auto found = names_.rename.find(parameter.key); found != names_.rename.end()) {
      notes_.renamed.push_back(parameter.key);
      renamed.key = found->second;
    }
    ParameterSpace p{.key = parameter.key, .distribution = distribution_of(parameter, items)};
    read_numbers(parameter, items, p);
    const std::string problem = check(p);
    if (!problem.empty()) fail(parameter, problem);
    const auto doubt = doubt_of(p);
    if (!doubt.error.empty()) fail(parameter, doubt.error);
    if (!doubt.warning.empty()) notes_.warnings.emplace_back(parameter, doubt.warning);
    if (renamed.key.empty()) return;  // left out
    p.key = renamed.key;
    if (!names_.of_program) {
      check_setting(renamed, parameter.key);
      check_type(renamed, p);
    }
    const auto [earlier, is_new] = notes_.places.emplace(p.key, parameter.place);
    if (!is_new) fail(renamed, fmt::format("found a second time, first at {}", earlier->second));
    space.push_back(std::move(p));
  }

  void check_setting(const YamlEntry& parameter, const std::string& in_file) const {
    if (list_.field(parameter.key) != nullptr) return;
    if (list_.section(parameter.key) != nullptr)
      fail(parameter, "is a section, expected settings below it: {parameters: {…}}");
    fail(parameter, fmt::format("{} (rename: {{{}: …}} gives it the name of a setting, and {{{}: ~}} leaves it out)",
                                configs::unknown_setting(parameter.key), in_file, in_file));
  }
  std::string text_of(const YamlEntry& value) const {
    return names_.of_program ? parameter_text(value) : override_text(value);
  }

  D distribution_of(const YamlEntry& parameter, const std::vector<YamlEntry>& items) const {
    const std::string prefix = parameter.key + ".";
    if (const YamlEntry* named = find(items, prefix, "distribution")) {
      const std::string name = text_in(*named, 100);
      if (const auto distribution = find_distribution(name)) return *distribution;
      for (const auto& [others, ours] : kNamesElsewhere)
        if (name == others) fail(*named, fmt::format("found '{}', which is {} here", name, ours));
      return *find_distribution(choice_in(*named, configs::words_of<Distribution>()));  // throws with the names
    }
    // W&B's defaults.
    if (find(items, prefix, "value") != nullptr) return D::constant;
    if (find(items, prefix, "values") != nullptr) return D::categorical;
    const YamlEntry *min = find(items, prefix, "min"), *max = find(items, prefix, "max");
    if (min != nullptr && max != nullptr)
      return configs::is_integer(min->node) && configs::is_integer(max->node) ? D::int_uniform : D::uniform;
    fail(parameter, "found neither value, values, min and max, distribution nor parameters");
  }

  void read_numbers(const YamlEntry& parameter, const std::vector<YamlEntry>& items, ParameterSpace& p) const {
    const std::string prefix = parameter.key + ".";
    const Shape shape = shape_of(p.distribution);
    for (size_t i = 0; i < shape.needed; ++i)
      if (find(items, prefix, shape.keys[i]) == nullptr)
        fail(parameter, fmt::format("found no {}, which {} needs", shape.keys[i], to_string(p.distribution)));
    for (const YamlEntry& item : items) {
      const std::string name = item.key.substr(prefix.size());
      if (name == "distribution") continue;
      if (std::find(shape.keys.begin(), shape.keys.end(), name) == shape.keys.end())
        fail(item, fmt::format("has no meaning for {}, which takes {}", to_string(p.distribution),
                               fmt::join(shape.keys, ", ")));
      if (name == "value") {
        p.values = {text_of(item)};
      } else if (name == "values" || name == "probabilities") {
        read_list(item, name, p);
      } else {
        for (const auto& [known, number] : kParameterNumbers)
          if (name == known) p.*number = number_in(item);
      }
    }
  }

  void read_list(const YamlEntry& item, const std::string& name, ParameterSpace& p) const {
    if (!item.node.IsSequence() || item.node.size() == 0) fail(item, "expected a list of at least one");
    for (const YAML::Node& element : item.node) {
      const YamlEntry one{item.key, element, item.place};
      if (name == "values") p.values.push_back(text_of(one));
      else p.probabilities.push_back(number_in(one));
    }
    if (name != "values") return;
    for (size_t i = 0; i < p.values.size(); ++i)
      if (std::find(p.values.begin(), p.values.begin() + i, p.values[i]) != p.values.begin() + i)
        fail(item, fmt::format("found {} a second time", p.values[i]));
  }

  /// A number with a fraction would be refused only in the trials that sample one.
  void check_type(const YamlEntry& parameter, const ParameterSpace& p) const {
    if (p.distribution == D::constant || p.distribution == D::categorical || p.distribution == D::int_uniform) return;
    const configs::Field* field = list_.field(p.key);
    const bool integer =
        std::holds_alternative<int64_t*>(field->value) || std::holds_alternative<uint64_t*>(field->value);
    const bool whole = is_quantized(p.distribution) && p.q == std::floor(p.q);
    if (integer && !whole)
      fail(parameter,
           fmt::format(
               "found distribution {}, expected int_uniform or a q_ one with a whole q: the setting takes integers",
               to_string(p.distribution)));
    if (!integer && !std::holds_alternative<double*>(field->value))
      fail(parameter, fmt::format("found distribution {}, expected value or values: the setting takes {}",
                                  to_string(p.distribution), configs::type_name(field->value)));
  }

  std::string origin_;
  ParameterNotes& notes_;
  const ParameterNames& names_;
  configs::Settings settings_;
  configs::FieldList list_ = configs::list_fields(settings_);
};

}  // namespace

SearchSpace read_parameters(const YamlEntry& parameters, const std::string& origin, ParameterNotes* notes,
                            const ParameterNames& names) {
  ParameterNotes own;
  Reader reader(origin, notes == nullptr ? own : *notes, names);
  reader.read_map(parameters, "");
  std::sort(reader.space.begin(), reader.space.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return std::move(reader.space);
}

}  // namespace foretime::jobs
