#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/frontends/ansor/printed/printed_file.h"
#include "data/frontends/ansor/printed/printed_stage.h"
#include "data/frontends/ansor/printed/split_lengths.h"

/// What the text of a DAG lacks, and how it is found for one workload key: first which stages are read, then lengths,
/// then types. Each step throws DataError where it cannot be known, and says what to write above the text.
namespace foretime::data {

/// All of it by stage.
struct WorkloadFacts {
  std::vector<std::vector<size_t>> reads = {};                    // by load: the stage that it reads
  std::vector<bool> output = {};                                  // no stage reads it
  std::vector<std::vector<std::optional<int64_t>>> extents = {};  // by axis, spatial ones first
  std::vector<std::string> types = {};
};

/// Finds `reads` and `output`: every stage but the `outputs` ones is read by another one. Where stages share names,
/// this and the number of outputs say which is meant; where they leave a choice, nothing does.
void find_reads(std::span<const PrintedStage> stages, const PrintedHints& hints, size_t outputs, WorkloadFacts& facts);

/// Finds `extents`, from the shapes of the outputs (in their order; none: not known), the splits of records, the hints,
/// and from what stages read and what reads them.
void find_lengths(std::span<const PrintedStage> stages, const PrintedHints& hints, const SplitLengths& lengths,
                  const std::vector<std::vector<int64_t>>& output_shapes, WorkloadFacts& facts);

/// Finds `types`.
void find_types(std::span<const PrintedStage> stages, const PrintedHints& hints, WorkloadFacts& facts);

/// The type of an expression of stage `stage`, where those of the stages before it are known.
std::string type_of(std::span<const PrintedStage> stages, const WorkloadFacts& facts, size_t stage, int32_t root);

}  // namespace foretime::data
