#pragma once

#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/graphs/group_header.h"

namespace foretime::worker {

/// Checks that loop programs for training were packed for the machines that the bundle will describe (data.targets).
/// Otherwise caches and rates would be guessed in training and measured when the bundle scores, or vice versa.
class MachineCheck {
 public:
  /// Reads the files of data.targets. `columns` is the number of columns of node features. Throws
  /// configs::SettingsError if a file is invalid, or if data.targets names files and data.format and
  /// data.representation are not programs and loops; DataError if data.allowed_roots does not allow a file.
  MachineCheck(const configs::Settings& settings, int64_t columns);

  /// Returns whether a training group was packed for a machine of data.targets; false for other data than loop
  /// programs. `features` are statistics of its node features. Throws DataError if it was packed for another machine,
  /// unless that is a GPU, data.hardware or undescribed.
  bool is_described(const data::GroupHeader& group, const data::ColumnStatistics& features) const;
  /// Throws configs::SettingsError if `groups`, the number of described groups of all ranks, is 0 although data.targets
  /// names machines.
  void require_described(double groups) const;

 private:
  bool has_machines_;                                 // data are loop programs, whose columns describe a machine
  bool gpu_;                                          // programs are for GPUs
  bool log_;                                          // statistics are of logarithms (model.features.log)
  std::vector<std::string> names_;                    // names of the machines of data.targets
  std::vector<data::MachineValues> target_machines_;  // values of the machines, in the order of `names_`
  data::MachineValues hardware_;                      // values of data.hardware
};

}  // namespace foretime::worker
