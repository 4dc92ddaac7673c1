#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {

/// Describes a known machine: its hardware and its names in records.
struct Machine {
  std::string name;                  // value of -model= in a TVM target
  std::vector<std::string> targets;  // TVM targets without -model= that mean this machine
  Hardware hardware;                 // rates apply to vectors of hardware.vector_bytes
};

/// Holds the machines that a model, or a packing of records, knows.
class Machines {
 public:
  Machines() = default;
  /// Takes the machines. Throws DataError if two have one name or one target.
  explicit Machines(std::vector<Machine> machines);

  /// Returns the machine of a target; null if it is unknown.
  const Machine* find(std::string_view target) const;
  /// Returns a text for a target whose hardware is guessed: the unknown machine of -model= (TVM's default, `unknown`,
  /// is not a name); a notice if the target of a CPU names no machine although some are known; for a GPU of unspecified
  /// architecture, the assumed one. Otherwise empty.
  std::string unknown(std::string_view target) const;
  /// Returns the hardware on which programs for a target run. For a known machine: its caches and rates, vectors as
  /// LLVM uses them for the target, possibly narrower than the machine's and with proportional rates, and the record's
  /// number of cores; for a known GPU, the record's limits of blocks if given. For unknown machines: hardware_of_target
  /// and gpu_of_target. Throws DataError if a GPU's target names a CPU or the reverse, and the errors of gpu_of_target.
  Hardware hardware_of(std::string_view target, const HardwareParameters& parameters) const;
  const std::vector<Machine>& all() const { return machines_; }

 private:
  std::vector<Machine> machines_;
};

/// Reads machine files written by `foretime target measure`; relative paths start at `root`. Throws DataError and
/// configs::SettingsError.
Machines read_machines(const std::vector<std::string>& paths, const std::filesystem::path& root);

/// Returns the value of -model= in a TVM target; empty without it.
std::string_view model_of_target(std::string_view target);

}  // namespace foretime::data
