#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {

/// A machine that is known: its hardware, and how records name it.
struct Machine {
  std::string name;                  // -model= of a TVM target
  std::vector<std::string> targets;  // TVM targets of records that do not say it
  Hardware hardware;                 // rates are of vectors of hardware.vector_bytes
};

/// The machines that a model, or a packing of records, knows.
class Machines {
 public:
  Machines() = default;
  /// Throws DataError where two have one name, or one target.
  explicit Machines(std::vector<Machine> machines);

  /// The machine that a target names; null where none of these.
  const Machine* find(std::string_view target) const;
  /// The machine that a target names by -model=, where it is none of these, so that its caches and rates are guessed;
  /// TVM's own default, `unknown`, is no name. Words that say so where the target of a CPU names none and others are
  /// known; of a GPU whose architecture its target does not say, what it is taken for. Else empty.
  std::string unknown(std::string_view target) const;
  /// What programs compiled for a target run on: caches and rates of the machine that it names; vectors as LLVM uses
  /// them for it, which may be narrower than the machine's, with rates in proportion; cores as the record says. Of an
  /// unknown machine what hardware_of_target says. Of a GPU's target the machine that it names, whose blocks may have
  /// what the record says where it says it; of an unknown one what gpu_of_target says. Throws DataError where a GPU's
  /// target names a CPU or the other way round, and as gpu_of_target does.
  Hardware hardware_of(std::string_view target, const HardwareParameters& said) const;
  const std::vector<Machine>& all() const { return machines_; }

 private:
  std::vector<Machine> machines_;
};

/// Of files that `foretime target measure` wrote; `root`: of relative ones. Throws DataError, configs::SettingsError.
Machines read_machines(const std::vector<std::string>& paths, const std::filesystem::path& root);

/// What stands behind -model= in a TVM target; empty where nothing does.
std::string_view model_of_target(std::string_view target);

}  // namespace foretime::data
