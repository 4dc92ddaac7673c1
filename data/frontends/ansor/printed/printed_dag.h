#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/frontends/ansor/records/record.h"

/// Compute DAGs as TVM prints them (`print(task.compute_dag)`), one line a stage, for those who kept no more of their
/// tasks. The text lacks the extents of inner stages and of reductions, types, and which of several stages of one name
/// is read. What is missing comes from the workload key, whose md5 also says that the text is the one that was
/// measured, from the lengths that recorded splits name, and from what a stage's readers need; what cannot be known is
/// asked for, not guessed.
namespace foretime::data {

/// What a user says of a DAG.
struct PrintedHints {
  std::map<std::string, int64_t> extents = {};    // by "STAGE.AXIS"
  std::map<std::string, std::string> types = {};  // of inputs, by name; float32 where nothing is said
  /// By reader and name, numbers of stages from 0 on: which of several stages of that name it reads.
  std::map<std::pair<size_t, std::string>, size_t> reads = {};
};

/// One DAG of a file of printed ones.
struct PrintedDag {
  std::string text = {};    // its lines, each with a newline
  int64_t line = 0;         // of the first one, from 1 on
  std::string key = {};     // its workload key, where the file has it
  PrintedHints hints = {};  // that the file has
};

/// DAGs in a text stand apart by empty lines. Above one may stand its workload key, a line that starts with [, and
/// lines that start with #, in which words STAGE.AXIS=NUMBER, READER.NAME=STAGE (numbers
/// of stages) and INPUT:TYPE are hints. Throws DataError where the file
/// cannot be read or has none.
std::vector<PrintedDag> read_printed_dags(const std::filesystem::path& file);

/// The md5 that stands in the workload keys of a DAG with this text: of the lines without shapes, where a function call
/// that is a whole body has only its name (TVM 0.7 to 0.19, ComputeDAG.workload_key). It is no key's where TVM left out
/// a part of a long expression.
std::string printed_hash(std::string_view text);

/// Lengths of loops by stage and axis, spatial axes first, as splits in records name them.
using SplitLengths = std::map<std::pair<int32_t, int32_t>, int64_t>;

/// Adds the lengths that the splits of a schedule name of axes of the DAG's own stages. `spatial`: how many spatial
/// axes each stage has, in their order. Throws DataError where a length differs from one that is known.
void add_split_lengths(const ScheduleSteps& schedule, const std::vector<int32_t>& axes,
                       const std::vector<int32_t>& spatial, SplitLengths& lengths);

/// A printed DAG, of which some lengths may be missing.
class PrintedProgram {
 public:
  /// Throws DataError, which names the line and what is wrong with it: no stage, a stage that TVM cut or prints in part
  /// (reductions with several results), a name that nothing before has.
  explicit PrintedProgram(std::string_view text);
  ~PrintedProgram();
  PrintedProgram(PrintedProgram&&) noexcept;

  /// Numbers of axes of each stage, as add_split_lengths takes them: all, and the spatial ones. Inputs have none.
  std::vector<int32_t> axes() const;
  std::vector<int32_t> spatial_axes() const;

  /// Whether the key names the shapes of all inputs: texts of one md5 may differ in them.
  bool has_inputs_of(const std::string& workload_key) const;

  /// The DAG as a line of JSON for DagTable (FORMATS: dags.jsonl). Throws DataError where the key has other shapes, or
  /// where a length, a type or a reader cannot be known: it says which, and what to write.
  std::string to_json(const std::string& workload_key, const SplitLengths& lengths, const PrintedHints& hints) const;

 private:
  struct Stage;
  struct Work;
  std::vector<Stage> stages_;
};

}  // namespace foretime::data
