#include "configs/load.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "base/text.h"
#include "configs/fields.h"
#include "configs/yaml_reader.h"

namespace foretime::configs {
namespace {

/// Maps a name that other projects use for a setting to the setting's key.
struct Alias {
  std::string_view alias, key;
};
constexpr Alias kAliases[] = {
    {"lr", "optimizer.learning_rate"},
    {"wd", "optimizer.weight_decay"},
    {"eps", "optimizer.epsilon"},
    {"warmup", "optimizer.warmup_steps"},
    {"scheduler", "optimizer.schedule"},
    {"lr_scheduler", "optimizer.schedule"},
    {"optimizer_type", "optimizer.type"},
    {"grad_clip", "optimizer.clip_norm"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"gradient_accumulation_steps", "optimizer.accumulation"},
    {"batch_size", "sampler.groups_per_batch"},
    {"hidden_size", "model.hidden"},
    {"hidden_dim", "model.hidden"},
    {"num_layers", "model.layers"},
    {"n_layers", "model.layers"},
    {"num_heads", "model.gat.heads"},
    {"arch", "model.type"},
    {"max_steps", "trainer.steps"},
    {"num_steps", "trainer.steps"},
    {"iterations", "trainer.steps"},
    {"num_epochs", "trainer.epochs"},
    {"max_epochs", "trainer.epochs"},
    {"random_seed", "trainer.seed"},
    {"amp", "trainer.precision"},
    {"bf16", "trainer.precision"},
    {"eval_interval", "trainer.eval_every"},
    {"log_interval", "trainer.log_every"},
    {"monitor", "trainer.metric"},
    {"objective", "trainer.metric"},
    {"mode", "trainer.metric_goal"},
    {"save_every", "checkpoint.every_steps"},
    {"resume_from", "checkpoint.resume"},
    {"num_workers", "data.read_threads"},
    {"validation", "data.valid"},
    {"val", "data.valid"},
    {"val_split", "data.holdout"},
    {"output_dir", "run.directory"},
    {"save_dir", "run.directory"},
    {"logdir", "run.directory"},
    {"workdir", "run.directory"},
};

template <class... Args>
[[noreturn]] void fail(const std::string& place, fmt::format_string<Args...> what, Args&&... args) {
  throw SettingsError("{}: {}", place, fmt::format(what, std::forward<Args>(args)...));
}

/// Everything before the last dot.
std::string parent_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

/// Fills settings key by key and remembers where each came from, so that bounds can be checked when all is read.
class Loader {
 public:
  explicit Loader(Settings& settings) : settings_(settings), list_(list_fields(settings)) {}

  void read_document(const std::string& yaml, const std::string& origin);
  void read_override(const std::string& text);
  void read_override(const std::string& key, const std::string& value, const std::string& place);
  void check_bounds() const;
  /// Checks the bounds of the values that the last override set.
  void check_bounds_of_override() const;
  /// Refuses settings of model types that are not used.
  void check_sections() const;

 private:
  void read_map(const YAML::Node& map, const std::string& prefix, const std::string& origin);
  void read_setting(const std::string& key, const YAML::Node& value, const std::string& origin,
                    const std::string& place);
  void read_field(const Field& field, const YAML::Node& node, const std::string& place);

  Settings& settings_;
  /// Null where there is none of that name.
  const Field* find_field(const std::string& key);
  void check_bound(const Field& field) const;

  FieldList list_;
  std::map<std::string, const Field*> found_;  // fields that were asked for
  int order_ = 0;                              // 0: the document; then each override
  std::map<std::string, std::string> seen_;    // key to its place in the document or override
  struct Source {
    std::string place;
    int order;
  };
  std::map<std::string, Source> set_;  // key to what set it last
};

void Loader::read_document(const std::string& yaml, const std::string& origin) {
  const YAML::Node root = parse_document(yaml, origin);
  if (root.IsNull()) fail(origin, "found no settings, expected a map such as 'trainer: {{steps: 100}}'");
  if (!root.IsMap())
    fail(place_of(root, origin), "found a {}, expected a map of settings such as 'trainer: {{steps: 100}}'",
         root.IsSequence() ? "list" : "single value");
  // The files of other commands.
  constexpr struct {
    const char *key, *what, *command;
  } kOthers[] = {{"method", "a sweep", "submit"},
                 {"parameters", "a sweep", "submit"},
                 {"finetune", "a fine-tuning", "submit"},
                 {"entries", "an experiment", "experiment"}};
  for (const auto& [key, what, command] : kOthers)
    if (root[key])
      fail(origin, "is {}, which `foretime {} {}` takes; expected settings of a run", what, command, origin);
  read_map(root, "", origin);
}

void Loader::read_map(const YAML::Node& map, const std::string& prefix, const std::string& origin) {
  for (const auto& item : map) {
    const std::string place = place_of(item.first, origin);
    if (!item.first.IsScalar())
      fail(place, "{}{}found a key that is not a name", parent_of(prefix), prefix.empty() ? "" : ": ");
    const std::string key = prefix + item.first.Scalar();
    const auto [earlier, is_new] = seen_.emplace(key, place);
    if (!is_new) fail(place, "{}: found a second time, first at {}", key, earlier->second);
    read_setting(key, item.second, origin, place);
  }
}

void Loader::read_setting(const std::string& key, const YAML::Node& value, const std::string& origin,
                          const std::string& place) {
  if (const Field* field = find_field(key)) {
    read_field(*field, value, place);
  } else if (list_.section(key) == nullptr) {
    fail(place, "{}: {}", key, unknown_setting(key));
  } else if (value.IsMap()) {
    read_map(value, key + ".", origin);
  } else if (!value.IsNull()) {  // a section whose keys are all commented out says nothing
    fail(place, "{}: found {}, expected a map: {} is a section", key,
         value.IsSequence() ? "a list" : fmt::format("'{}'", value.Scalar()), key);
  }
}

void Loader::read_field(const Field& field, const YAML::Node& node, const std::string& place) {
  try {
    read_value(node, field.value);
  } catch (const ValueError& error) {
    fail(place, "{}: {}", field.key, error.text);
  }
  set_[field.key] = {place, order_};
}

void Loader::read_override(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail("override " + text, "found no key=value, expected an override such as trainer.steps=100");
  read_override(trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)), "override " + text);
}

void Loader::read_override(const std::string& key, const std::string& value, const std::string& place) {
  // A value that starts like a YAML list, map or quoted string is YAML. Any other value is taken literally, so that
  // globs and colons need no second quoting inside the shell's.
  const bool is_yaml = !value.empty() && std::string("[{\"'").find(value[0]) != std::string::npos;
  seen_.clear();
  ++order_;
  read_setting(key, is_yaml ? parse_document(value, place) : YAML::Node(value), place, place);
}

const Field* Loader::find_field(const std::string& key) {
  const auto [entry, is_new] = found_.try_emplace(key);
  if (is_new) entry->second = list_.field(key);
  return entry->second;
}

void Loader::check_bound(const Field& field) const {
  const std::string violation = bound_violation(field);
  if (violation.empty()) return;
  const auto source = set_.find(field.key);
  fail(source == set_.end() ? "default" : source->second.place, "{}: {}", field.key, violation);
}

void Loader::check_bounds() const {
  for (const Field& field : list_.fields) check_bound(field);
}

void Loader::check_bounds_of_override() const {
  for (const auto& [key, source] : set_)
    if (source.order == order_) check_bound(*found_.at(key));
}

void Loader::check_sections() const {
  const auto type_set = set_.find("model.type");
  for (const auto& [key, source] : set_) {
    // A file's section may stay behind where an override chooses another type.
    if (is_read(settings_, key) || (type_set != set_.end() && type_set->second.order > source.order)) continue;
    const std::string type = list_.field(key)->section().substr(std::string("model.").size());
    fail(source.place,
         "{}: only a model of type {} reads this setting, and model.type is {}; set model.type to {}, or leave it out",
         key, type, word_of(settings_.model.type), type);
  }
}

}  // namespace

std::string unknown_setting(const std::string& key) {
  const auto* alias = std::ranges::find(kAliases, key.substr(key.rfind('.') + 1), &Alias::alias);
  if (alias != std::end(kAliases)) return fmt::format("unknown setting, did you mean {}?", alias->key);
  Settings defaults;
  const FieldList list = list_fields(defaults);
  std::vector<std::string> names, known;
  for (const Section& section : list.sections) names.push_back(section.key);
  for (const Field& field : list.fields) names.push_back(field.key);
  if (const auto nearest = nearest_name(key, names); !nearest.empty())
    return fmt::format("unknown setting, did you mean {}?", nearest);
  const std::string section = parent_of(key);
  for (const std::string& name : names)
    if (parent_of(name) == section) known.push_back(name.substr(name.rfind('.') + 1));
  if (known.empty()) return fmt::format("unknown setting; there is no section {}", section);
  return fmt::format("unknown setting; {} has {}", section.empty() ? "the top level" : section, fmt::join(known, ", "));
}

Settings load_settings(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return parse_settings(read_yaml_text(file), file.string(), overrides);
}

Settings parse_settings(const std::string& yaml, const std::string& origin, const std::vector<std::string>& overrides) {
  Settings settings;
  Loader loader(settings);
  loader.read_document(yaml, origin);
  for (const std::string& text : overrides) loader.read_override(text);
  loader.check_bounds();
  loader.check_sections();
  const std::string conflict = find_conflict(settings);
  if (!conflict.empty()) fail(origin, "{}", conflict);
  // A run's config.yaml is read again; written with a line for each value, a text grows fivefold at most.
  if (const size_t size = yaml.size() > kMostYamlBytes / 16 ? to_yaml(settings).size() : 0; size > kMostYamlBytes)
    fail(origin,
         "found settings that take {} bytes with a line for each value, expected at most {}: name files by patterns",
         size, kMostYamlBytes);
  return settings;
}

void apply_override(Settings& settings, const std::string& key, const std::string& value) {
  Settings changed = settings;
  Loader loader(changed);
  loader.read_override(trimmed(key), trimmed(value), fmt::format("override {}={}", key, value));
  loader.check_bounds();
  settings = std::move(changed);
}

struct Variation::State {
  explicit State(Settings from) : base(std::move(from)), current(base), loader(current) {}
  const Settings base;
  Settings current;
  Loader loader;  // points into current
};

Variation::Variation(Settings base) : state_(std::make_unique<State>(std::move(base))) {
  state_->loader.check_bounds();
}
Variation::~Variation() = default;
Variation::Variation(Variation&&) noexcept = default;

void Variation::reset() { state_->current = state_->base; }

void Variation::set(const std::string& key, const std::string& value) {
  state_->loader.read_override(trimmed(key), trimmed(value), fmt::format("override {}={}", key, value));
  state_->loader.check_bounds_of_override();
}

Settings& Variation::settings() { return state_->current; }

}  // namespace foretime::configs
