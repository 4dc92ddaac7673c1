#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/select_command.h"
#include "cli/workload_texts.h"
#include "inference/selection/choose.h"
#include "inference/selection/embedding_model.h"

namespace foretime::cli {

/// Holds the candidates of one task, some of which are to be measured. Lists have one entry for each of
/// pool.candidates.
struct SelectTask {
  std::string name;
  std::vector<int64_t> numbers = {};    // number in its group, as in `rank`
  std::vector<std::string> ids = {};    // "" for candidates without an id
  std::vector<SourceLine> places = {};  // line 0: from a graph file, or the file is one text
  std::vector<float> scores = {};       // scores of the first model
  int64_t measured = 0;                 // number of other candidates that are already measured
  inference::SelectionPool pool = {};   // points are only filled on request
};

/// Reads and scores all candidates. Skips candidates that cannot be read or scored, duplicates, and measured ones, and
/// reports their number on standard error. Throws the errors of select_candidates.
std::vector<SelectTask> read_tasks(const std::vector<inference::EmbeddingModel>& models,
                                   const SelectArguments& arguments, bool points);

}  // namespace foretime::cli
