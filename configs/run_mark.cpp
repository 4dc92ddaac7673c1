#include "configs/run_mark.h"

#include "base/foreign_file.h"
#include "configs/load.h"
#include "configs/yaml_reader.h"

namespace foretime::configs {

Settings settings_of_run(const std::filesystem::path& folder) {
  const auto file = folder / "config.yaml";
  const auto text = read_foreign(folder, file.filename(), kMostYamlBytes);
  if (!text) throw SettingsError("{}: no such file, expected the settings of a run of foretime train", file.string());
  return parse_settings(*text, file.string());
}

}  // namespace foretime::configs
