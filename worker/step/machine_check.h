#pragma once

#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/graphs/group_header.h"

namespace foretime::worker {

/// Checks that training programs were packed for the machines that the bundle will describe (data.targets). Otherwise
/// caches and rates would be guessed in training and measured when the bundle scores, or vice versa.
class MachineCheck {
 public:
  /// Reads the files of data.targets. `columns` is the number of columns of node features. Throws
  /// configs::SettingsError if a file is invalid, or if data.targets names machines and these columns do not describe
  /// any; DataError if data.allowed_roots does not allow a file.
  MachineCheck(const configs::Settings& settings, int64_t columns);

  /// Returns whether a training group was packed for one of data.targets (all its programs have one machine). Throws
  /// DataError if it was packed for another machine, unless that is data.hardware or an undescribed one.
  bool is_described(const data::GroupHeader& group, const data::ColumnStatistics& features) const;
  /// Throws configs::SettingsError if `groups`, the number of described groups of all ranks, is 0 although data.targets
  /// names machines.
  void require_described(double groups) const;

 private:
  bool has_machines_;  // columns describe a machine
  bool gpu_;           // programs are for GPUs
  bool log_;           // statistics are of logarithms
  std::vector<std::string> names_;
  std::vector<data::MachineValues> target_machines_;  // values of data.targets, as `names_`
  data::MachineValues hardware_;                      // values of data.hardware
};

}  // namespace foretime::worker
