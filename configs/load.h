#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "configs/settings_error.h"

namespace foretime::configs {

/// Reads a YAML file over the defaults and applies `a.b=value` overrides in order. Checks every bound, that no settings
/// of unused model types are set (unless a later override chose another type), and that settings do not contradict each
/// other. An override's value that starts with [ { " or ' is YAML, any other is taken literally; a single string means
/// a list of one. Throws SettingsError, and StorageError if the storage fails.
Settings load_settings(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

/// Reads settings from YAML text as load_settings does; `origin` names the text in messages.
Settings parse_settings(const std::string& yaml, const std::string& origin,
                        const std::vector<std::string>& overrides = {});

/// Sets one key, given by its full name, as the override `key=value` does; for sweeps. Throws SettingsError and leaves
/// `settings` unchanged for an unknown key, a malformed value, and any setting out of bounds; contradictions pass.
void apply_override(Settings& settings, const std::string& key, const std::string& value);

/// Changes some keys of the same settings repeatedly, as apply_override on a copy, but checks only the changed keys.
class Variation {
 public:
  /// Takes the settings to vary. Throws SettingsError if one is out of bounds.
  explicit Variation(Settings base);
  ~Variation();
  Variation(Variation&&) noexcept;

  /// Restores the settings that the constructor took.
  void reset();
  /// Sets a key as apply_override does. After it has thrown, only `reset` may be called.
  void set(const std::string& key, const std::string& value);
  /// Returns the current settings; changes last until the next `reset`.
  Settings& settings();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a message about the first two settings that are within bounds but contradict each other, with both keys,
/// their values and a remedy; "" if there is no contradiction.
std::string find_conflict(const Settings& settings);

/// Returns the message of find_conflict, looking only for contradictions with data.prune_hops.
std::string find_pruning_conflict(const Settings& settings);

/// Returns whether these settings use a key. All keys are used but those in the section of a model type that does not
/// occur in model.type, the layers of a stacked model or trainer.baselines.
bool is_read(const Settings& settings, const std::string& key);

/// Returns the number of steps that messages travel in a model, which is the number of layers of its message plans. It
/// is the sum over the convolutions: K - 1 for a Chebyshev convolution of order K, 1 for any other; 0 for an MLP.
int64_t message_hops(const ModelSettings& settings);

/// Returns settings as YAML, which load_settings reads back: every key that is used (`is_read`), doubles in shortest
/// round-trip form, keys in declaration order, so that equal settings give equal bytes.
std::string to_yaml(const Settings& settings);

/// Returns the Markdown reference page of all keys: name, type, default, bounds, meaning.
std::string reference_page();

/// Returns the full names of all keys, in declaration order.
std::vector<std::string> all_keys();

/// Returns a message about a key that is no setting. It names the setting that other projects call so (such as lr),
/// else the nearest known key, else the keys of its section, else the unknown section.
std::string unknown_setting(const std::string& key);

}  // namespace foretime::configs
