#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/printed/printed_file.h"
#include "data/frontends/ansor/printed/printed_stage.h"
#include "data/frontends/ansor/printed/split_lengths.h"

/// Compute DAGs as TVM prints them (`print(task.compute_dag)`), one line a stage, for those who kept no more of their
/// tasks. The text lacks the extents of inner stages and of reductions, types, and which of several stages of one name
/// is read. What is missing comes from the workload key, whose md5 also says that the text is the one that was
/// measured, from the lengths that recorded splits name, and from what a stage's readers need; what cannot be known is
/// asked for, not guessed.
namespace foretime::data {

/// A printed DAG, of which some lengths may be missing.
class PrintedProgram {
 public:
  /// Throws DataError, which names the line and what is wrong with it: no stage, a stage that TVM cut or prints in part
  /// (reductions with several results), a name that nothing before has.
  explicit PrintedProgram(std::string_view text) : stages_(parse_stages(text)) {}

  /// Numbers of axes of each stage, as add_split_lengths takes them: all, and the spatial ones. Inputs have none.
  std::vector<int32_t> axes() const;
  std::vector<int32_t> spatial_axes() const;

  /// Whether the key names the shapes of all inputs: texts of one md5 may differ in them.
  bool has_inputs_of(const std::string& workload_key) const;

  /// The DAG as a line of JSON for DagTable. Throws DataError where the key has other shapes, or
  /// where a length, a type or a reader cannot be known: it says which, and what to write.
  std::string to_json(const std::string& workload_key, const SplitLengths& lengths, const PrintedHints& hints) const;

 private:
  std::vector<PrintedStage> stages_;
};

}  // namespace foretime::data
