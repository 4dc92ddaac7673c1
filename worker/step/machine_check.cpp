#include "worker/step/machine_check.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/settings_error.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/machines.h"
#include "sharding/dataset_index.h"

namespace foretime::worker {

MachineCheck::MachineCheck(const configs::Settings& settings, int64_t columns)
    : has_machines_(settings.data.format == configs::DataFormat::programs &&
                    settings.data.representation == configs::Representation::loops),
      gpu_(data::are_gpu_columns(columns)),
      log_(settings.model.features.log),
      hardware_(data::machine_values(data::hardware_of(settings.data.hardware))) {
  const auto& files = settings.data.targets;
  if (const auto admit = sharding::allowed_roots_check(settings.data))
    for (const auto& file : files) admit(std::filesystem::path(settings.data.root) / file);
  const auto machines = data::read_machines(files, settings.data.root);
  for (const auto& machine : machines.all()) {
    names_.push_back(machine.name);
    target_machines_.push_back(data::machine_values(machine.hardware));
  }
  if (files.empty() || has_machines_) return;
  throw configs::SettingsError(
      "data.targets: names machines ({}), which only programs as loop graphs depend on; "
      "set data.format=programs and data.representation=loops, or leave data.targets out",
      fmt::join(names_, ", "));
}

bool MachineCheck::is_described(const data::GroupHeader& group, const data::ColumnStatistics& features) const {
  if (!has_machines_) return false;
  // The largest value of a column is that of its statements, or the 0 of other nodes.
  const auto is = [&](const data::MachineValues& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = std::max<double>(0.0, values[i]), expected = log_ ? std::log1p(value) : value;
      if (std::abs(features.maxima[data::LoopColumns::of_machine_alone[i]] - expected) > 1e-6 * (1.0 + expected))
        return false;
    }
    return true;
  };
  if (std::ranges::any_of(target_machines_, is)) return true;
  // What is known of a GPU without a file is known from its target, in training as when a bundle scores.
  if (gpu_ || is(hardware_) || is(data::machine_values({}))) return false;
  throw DataError(
      "{}: {}: was packed for a machine that {}, so that a bundle of this run would guess its caches and rates; "
      "name the files in data.targets that pack-records had as --targets "
      "(or put what it had as --hardware into data.hardware)",
      group.file.string(), group.name,
      names_.empty() ? "data.targets does not name"
                     : fmt::format("is none of data.targets ({})", fmt::join(names_, ", ")));
}

void MachineCheck::require_described(double groups) const {
  if (names_.empty() || groups > 0.0) return;
  throw configs::SettingsError(
      "data.targets: names machines ({}), but no group of data.train was packed with these files: "
      "the model would learn from guesses and score by measurements; "
      "pack the records with the same files (foretime data pack-records --targets), or leave data.targets out",
      fmt::join(names_, ", "));
}

}  // namespace foretime::worker
