#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "configs/settings.h"

namespace foretime::configs {

/// A machine that tensor programs are measured on: a file that `foretime target measure` writes, to which people may
/// add `targets` (docs/how-to/describe-a-machine.md).
struct MachineFile {
  std::string name;                  // what -model= of a record's TVM target says
  std::vector<std::string> targets;  // whole TVM targets of records that do not say it
  HardwareSettings hardware;         // with the medians of the measured rates
};

/// Throws SettingsError, with file, line and key: for unknown keys, values out of bounds, no name or one with blanks,
/// and no hardware.
MachineFile parse_machine_file(const std::string& yaml, const std::string& origin);
MachineFile read_machine_file(const std::filesystem::path& file);

}  // namespace foretime::configs
