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
  std::vector<std::string> targets;  // whole TVM targets without -model= that mean this machine
  Hardware hardware;                 // the machine's hardware; rates are for vectors of hardware.vector_bytes
};

/// Holds the machines that a model, or a packing of records, knows.
class Machines {
 public:
  Machines() = default;
  /// Takes the machines. Throws DataError if two of them have the same name or a target in common.
  explicit Machines(std::vector<Machine> machines);

  /// Returns the first machine that is named by the target's -model= or lists the whole target; null if there is none.
  const Machine* find(std::string_view target) const;
  /// Returns a text about a target whose hardware hardware_of() would guess: the name in -model= that no machine has
  /// (TVM's default, `unknown`, is not a name); a notice if a CPU's target names no machine although machines are
  /// known; the assumed architecture if a GPU's target names none that is known. Returns "" for all other targets.
  std::string unknown(std::string_view target) const;
  /// Returns the hardware on which programs for a target run; `parameters` are those of a record. For a CPU that find()
  /// knows: the machine's caches and rates, the narrower of the machine's vectors and those that LLVM uses for the
  /// target (with rates in proportion), and the record's number of cores. For a GPU that find() knows: the machine's
  /// hardware, with the record's limits of threads and shared memory of a block where they are above 0. For unknown
  /// machines: hardware_of_target, or gpu_of_target with its errors. Throws DataError if only one of both is a GPU.
  Hardware hardware_of(std::string_view target, const HardwareParameters& parameters) const;
  /// Returns the hardware on which a CPU's program of TIR runs, from its target alone: that of hardware_of, with the
  /// cores that -num-cores= gives, by default one. Throws DataError for a GPU's target.
  Hardware hardware_of_tir(std::string_view target) const;
  const std::vector<Machine>& all() const { return machines_; }

 private:
  std::vector<Machine> machines_;
};

/// Reads machine files (configs::MachineFile); relative paths start at `root`. Throws DataError if two have one name or
/// target, and the errors of configs::read_machine_file.
Machines read_machines(const std::vector<std::string>& paths, const std::filesystem::path& root);

/// Returns the value of -model= in a TVM target; empty if the target lacks the option.
std::string_view model_of_target(std::string_view target);

}  // namespace foretime::data
