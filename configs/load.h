#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/settings.h"
#include "configs/settings_error.h"

namespace foretime::configs {

/// Reads a YAML file over the defaults, then applies `a.b=value` overrides in order, then checks every bound and that
/// settings do not contradict each other. An override's value that starts with [ { " or ' is YAML, everything else is
/// taken as it stands; in a file and in overrides a single string stands for a list of one. Throws SettingsError.
Settings load_settings(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

/// As load_settings, from YAML text; `origin` stands for the file's name in messages.
Settings parse_settings(const std::string& yaml, const std::string& origin,
                        const std::vector<std::string>& overrides = {});

/// Sets one key, given by its full name, as the override `key=value` would; for sweeps. Throws SettingsError where the
/// key is unknown or the value malformed or out of bounds, and then leaves `settings` as they were. Contradictions
/// between keys are left to the loading of the result.
void apply_override(Settings& settings, const std::string& key, const std::string& value);

/// Settings with other values of some keys, over and over: what apply_override does to a copy, for as little as reading
/// the values takes.
class Variation {
 public:
  explicit Variation(Settings base);
  ~Variation();
  Variation(Variation&&) noexcept;

  /// Back to the base.
  void reset();
  /// As apply_override; after a failure only reset may follow.
  void set(const std::string& key, const std::string& value);
  /// What may be changed besides, until the next reset.
  Settings& settings();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Settings that are each within bounds but cannot be meant together. Names both keys, their values and what to do;
/// empty where all is well.
std::string find_conflict(const Settings& settings);

/// Of these, what concerns data.prune_hops.
std::string find_pruning_conflict(const Settings& settings);

/// Whether a key is one of all models, or one in the section of a model type that these settings use: model.type, the
/// layers of a stacked model, trainer.baselines.
bool is_read(const Settings& settings, const std::string& key);

/// How many steps messages travel in a model: the layers of its message plans. A Chebyshev convolution of order K takes
/// K - 1 steps, all others one.
int64_t message_hops(const ModelSettings& settings);

/// The resolved settings as YAML, which load_settings reads back: every key that is read (`is_read`), doubles in
/// shortest round-trip form, keys in declaration order, so equal settings give equal bytes.
std::string to_yaml(const Settings& settings);
std::string to_yaml(const Settings& settings, const std::function<bool(const std::string& key)>& prints);

/// The settings that a file with keys and words of former versions names, under their new names: as YAML that
/// load_settings reads. Throws SettingsError.
std::string migrate(const std::filesystem::path& file);

/// The Markdown reference page of all keys: name, type, default, bounds, meaning.
std::string reference_page();

/// Full names of all keys, in declaration order.
std::vector<std::string> all_keys();

/// Why a key is no setting: its new names where it was renamed, the setting that elsewhere has this name (lr), else the
/// nearest known key, else those of its section.
std::string unknown_setting(const std::string& key);

/// Keys and words that former versions had. Files that hold them are refused with the new ones.
struct RenamedKey {
  std::string_view old_key;
  std::vector<std::string_view> keys;  // where it belonged to several model types: one of each
};
struct RenamedWord {
  std::string_view key, old_word, word;
};
std::span<const RenamedKey> renamed_keys();
std::span<const RenamedWord> renamed_words();

}  // namespace foretime::configs
