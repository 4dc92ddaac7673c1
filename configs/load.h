#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "configs/settings_error.h"

namespace foretime::configs {

/// Reads a YAML file over the defaults, applies `a.b=value` overrides in order, and checks every bound and that
/// settings do not contradict each other. An override's value that starts with [ { " or ' is YAML, any other is taken
/// literally; in a file and in overrides a single string means a list of one. Throws SettingsError, and
/// StorageError if the storage fails.
Settings load_settings(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

/// Reads settings from YAML text as load_settings does; `origin` names the text in messages.
Settings parse_settings(const std::string& yaml, const std::string& origin,
                        const std::vector<std::string>& overrides = {});

/// Sets one key, given by its full name, as the override `key=value` does; for sweeps. Throws SettingsError, without
/// changing `settings`, if the key is unknown or the value malformed or out of bounds. Contradictions between keys are
/// found when the result is loaded.
void apply_override(Settings& settings, const std::string& key, const std::string& value);

/// Changes some keys of given settings repeatedly: equivalent to apply_override on a copy, but only as expensive as
/// reading the values.
class Variation {
 public:
  explicit Variation(Settings base);
  ~Variation();
  Variation(Variation&&) noexcept;

  /// Restores the base settings.
  void reset();
  /// Sets a key as apply_override does. After a failure only `reset` may follow.
  void set(const std::string& key, const std::string& value);
  /// Returns the current settings; changes last until the next `reset`.
  Settings& settings();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a message about settings that are within bounds but contradict each other, with both keys, their values and
/// a remedy; "" if there is no contradiction.
std::string find_conflict(const Settings& settings);

/// Returns the part of find_conflict that concerns data.prune_hops.
std::string find_pruning_conflict(const Settings& settings);

/// Returns whether these settings use a key: a key of all models, or one in the section of a model type that occurs in
/// model.type, the layers of a stacked model or trainer.baselines.
bool is_read(const Settings& settings, const std::string& key);

/// Returns the number of steps that messages travel in a model, which is the number of layers of its message plans. A
/// Chebyshev convolution of order K takes K - 1 steps, any other one step.
int64_t message_hops(const ModelSettings& settings);

/// Returns the resolved settings as YAML, which load_settings reads back: every key that is used (`is_read`), doubles
/// in shortest round-trip form, keys in declaration order, so that equal settings give equal bytes.
std::string to_yaml(const Settings& settings);

/// Returns the Markdown reference page of all keys: name, type, default, bounds, meaning.
std::string reference_page();

/// Returns the full names of all keys, in declaration order.
std::vector<std::string> all_keys();

/// Returns a message about a key that is no setting: the setting that other projects call so (lr),
/// else the nearest known key, else the keys of its section.
std::string unknown_setting(const std::string& key);

}  // namespace foretime::configs
