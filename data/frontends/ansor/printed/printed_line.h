#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The text of one line of a printed DAG, and the md5 of all of them.
namespace foretime::data {

/// Between an input's name and its shape: TVM's word.
inline constexpr std::string_view kPrintedInput =
    " = PLACE"
    "HOLDER ";

/// What messages advise where TVM's text is not enough.
inline constexpr const char* kWholeTable = "tools/data/export_dags.py writes all of it where TVM is installed";

/// The parts of a stage's line: NAME(AXES)TENSOR ASSIGNMENT BODY. `assignment` is empty where there is none.
struct PrintedLine {
  std::string_view name, axes, tensor, assignment, body;
};

PrintedLine parts_of(std::string_view line);

/// "i, j, k" as [i, j, k].
std::vector<std::string> listed_words(std::string_view list);

/// "4, 8" as [4, 8]. Throws DataError where one is no length of a tensor.
std::vector<int64_t> listed_lengths(std::string_view list);

/// The md5 that stands in the workload keys of a DAG with this text: of the lines without shapes, where a function call
/// that is a whole body has only its name (TVM 0.7 to 0.19, ComputeDAG.workload_key). It is no key's where TVM left out
/// a part of a long expression.
std::string printed_hash(std::string_view text);

}  // namespace foretime::data
