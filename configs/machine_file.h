#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "configs/settings.h"

namespace foretime::configs {

/// Describes a machine that tensor programs are measured on: a file of `foretime target measure`, to which users may
/// add `targets` (docs/how-to/describe-a-machine.md).
struct MachineFile {
  std::string name;                  // value of -model= in the TVM targets of records
  std::vector<std::string> targets;  // whole TVM targets of records without -model=
  HardwareSettings hardware;         // properties of the machine, with the medians of the measured rates
};

/// Parses a machine file. Throws SettingsError, with file, line and key, for unknown keys, values out of bounds, a
/// missing name or one with blanks, and missing hardware.
MachineFile parse_machine_file(const std::string& yaml, const std::string& origin);
/// Reads a machine file. Throws as parse_machine_file and read_yaml_text do.
MachineFile read_machine_file(const std::filesystem::path& file);

}  // namespace foretime::configs
