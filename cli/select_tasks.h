#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/select_command.h"
#include "cli/workload_texts.h"
#include "inference/selection/choose.h"
#include "inference/selection/embedding_model.h"

namespace foretime::cli {

/// The candidates of one task, of which some are to be measured. Lists have one entry for each of pool.candidates.
struct SelectTask {
  std::string name;
  std::vector<int64_t> numbers = {};   // in its group, as `rank` counts
  std::vector<std::string> ids = {};   // "" where one has none
  std::vector<Place> places = {};      // line 0: in a graph file, or the file is one text
  std::vector<float> scores = {};      // of the first model
  int64_t measured = 0;                // that are known already, beside the candidates
  inference::SelectionPool pool = {};  // without points unless they are asked for
};

/// Reads and scores all candidates. Left out, and told on standard error: what cannot be read or scored, what stands
/// there twice, and what is measured already. Throws as select_candidates.
std::vector<SelectTask> read_tasks(const std::vector<inference::EmbeddingModel>& models,
                                   const SelectArguments& arguments, bool points);

}  // namespace foretime::cli
