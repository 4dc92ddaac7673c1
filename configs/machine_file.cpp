#include "configs/machine_file.h"

#include <fmt/format.h>

#include "configs/load.h"
#include "configs/settings_error.h"
#include "configs/yaml_reader.h"

namespace foretime::configs {
namespace {

constexpr size_t kLongestText = 1000;

double rate_in(const YamlEntry& entry) {
  const double rate = number_in(entry);
  if (!(rate >= 0.0)) fail(entry, fmt::format("{}, expected 0 or more, in 10^9 a second", rate));
  return rate;
}

/// {one: {median: 200, …}, all: …}, or plain numbers.
void read_rate(const YamlEntry& entry, const std::string& origin, double& one, double& all) {
  if (entry.node.IsScalar()) {
    one = rate_in(entry);
    return;
  }
  for (const auto& which : items_of(entry, origin, entry.key + ".", {"one", "all"})) {
    double& rate = which.key.ends_with(".one") ? one : all;
    if (which.node.IsScalar()) {
      rate = rate_in(which);
      continue;
    }
    for (const auto& figure : items_of(which, origin, which.key + ".", {"median", "low", "high", "spread", "runs"}))
      if (figure.key.ends_with(".median")) rate = rate_in(figure);
  }
}

}  // namespace

MachineFile parse_machine_file(const std::string& yaml, const std::string& origin) {
  const YamlEntry document{"", parse_yaml(yaml, origin), origin};
  Settings settings;
  MachineFile machine;
  auto& hardware = settings.data.hardware;
  bool described = false;
  for (const auto& entry : items_of(document, origin, "",
                                    {"name", "cpu", "targets", "hardware", "threads", "line_bytes", "mhz",
                                     "multiply_add_gflop_s", "copy_gb_s", "busy_cores_of_others"})) {
    if (entry.key == "name") machine.name = text_in(entry, kLongestText);
    if (entry.key == "multiply_add_gflop_s")
      read_rate(entry, origin, hardware.multiply_add_gflop_s, hardware.all_multiply_add_gflop_s);
    if (entry.key == "copy_gb_s") read_rate(entry, origin, hardware.copy_gb_s, hardware.all_copy_gb_s);
    if (entry.key == "targets") {
      if (!entry.node.IsSequence()) fail(entry, "expected a list of TVM targets");
      for (const YAML::Node& node : entry.node)
        machine.targets.push_back(text_in({entry.key, node, entry.place}, kLongestText));
    }
    if (entry.key != "hardware") continue;
    for (const auto& part : items_of(entry, origin, "hardware.", {})) {
      described = true;
      try {
        apply_override(settings, "data." + part.key, override_text(part));
      } catch (const SettingsError& error) {
        throw SettingsError("{}: {}", part.place, error.what());
      }
    }
  }
  if (machine.name.empty())
    throw SettingsError("{}: name: missing, expected the value of -model= in the targets of records", origin);
  if (machine.name.find_first_of(" \t\n") != std::string::npos)
    throw SettingsError("{}: name: '{}' has a blank, which -model= of a TVM target cannot have", origin, machine.name);
  if (!described)
    throw SettingsError(
        "{}: hardware: missing, expected vector_bytes, "
        "caches and other properties of the machine (foretime target measure writes it)",
        origin);
  machine.hardware = hardware;
  return machine;
}

MachineFile read_machine_file(const std::filesystem::path& file) {
  return parse_machine_file(read_yaml_text(file), file.string());
}

}  // namespace foretime::configs
