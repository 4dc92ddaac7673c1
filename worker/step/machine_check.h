#pragma once

#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/graphs/group_header.h"

namespace foretime::worker {

/// Whether the programs that a run learns from were packed for the machines that its bundle will know (data.targets).
/// Where they were not, caches and rates would be guessed in training and measured when the bundle scores, or the
/// other way round.
class MachineCheck {
 public:
  /// Reads the files of data.targets. `columns`: of the node features. Throws configs::SettingsError where a file is
  /// wrong, or where such columns say nothing of machines; DataError where data.allowed_roots does not allow a file.
  MachineCheck(const configs::Settings& settings, int64_t columns);

  /// Whether a training group, whose programs all have one machine, was packed for one of data.targets. Throws
  /// DataError where it was packed for another one, unless that is data.hardware, or one of which nothing was known.
  bool described(const data::GroupHeader& group, const data::ColumnStatistics& features) const;
  /// `groups`: of all ranks, those that are described. Throws configs::SettingsError where there are none, although
  /// data.targets names machines.
  void require_described(double groups) const;

 private:
  bool has_machines_;  // among the columns
  bool gpu_;           // programs are for GPUs
  bool log_;           // statistics are of logarithms
  std::vector<std::string> names_;
  std::vector<data::MachineValues> known_;  // of data.targets
  data::MachineValues settings_;            // of data.hardware
};

}  // namespace foretime::worker
