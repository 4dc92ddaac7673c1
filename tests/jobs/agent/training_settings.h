#pragma once

#include <string>

#include "configs/load.h"

namespace foretime::testing {

/// Of a training job on one file, as YAML: as little as an agent takes.
inline std::string training_settings(const std::string& root, const std::string& file) {
  configs::Settings settings;
  settings.data.root = root;
  settings.data.train = {file};
  settings.data.holdout = 0.1;
  settings.trainer.metric = "valid/kendall_tau";
  return configs::to_yaml(settings);
}

}  // namespace foretime::testing
