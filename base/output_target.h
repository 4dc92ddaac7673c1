#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace foretime {

/// The output of a command is not what the command may replace. The user names another file or says --force.
struct OutputRefused : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// What commands write, as far as the bytes of a file show it (the table in output_target.cpp).
enum class FileKind : uint8_t {
  collection,   // packed groups (data/files/packed_file.h)
  bundle,       // a model (inference/bundle/bundle.h)
  torchscript,  // a model (worker/export/bundles.h)
  graph,        // .npz of a graph (data/dataset/hlo_convert.h)
  plan_arrays,  // .npz of a model's inputs (inference/scoring/graph_scorer.h)
  ranking,      // CSV, JSON or submission of `rank`, `evaluate` and trials
  report,       // HTML of `report`
  machine,      // YAML or JSON of `target measure`
  experiment,   // tables, figures and summary of an experiment
  unmarked,     // lines of records, compute DAGs: as files of other origin
  xgboost       // a model of XGBoost, which its library writes: as files of other origin
};

/// What some writers put into their files, to be recognised by: at the end of .npz archives (their comment), and
/// anywhere in the first or last 64 KiB of a page, a figure or a summary.
inline constexpr std::string_view kGraphComment = "foretime graph", kPlanArraysComment = "foretime plan arrays";
inline constexpr std::string_view kReportMark = "<meta name=\"generator\" content=\"Foretime report\">";
inline constexpr std::string_view kExperimentMark = "<!-- Foretime experiment -->";

/// Throws OutputRefused unless a command may write a file of `kind` to `output`: nothing is there, or an empty file, or
/// one of `kind` that none of `inputs` names, directly or through links. `force`: any other file may be replaced as
/// well, but no folder. Devices, pipes and the open files in /dev/fd take text; other kinds are refused there. `option`
/// precedes the name in messages: "-o", "--rankings" or "". Throws StorageError where the storage fails.
///
/// Commands call this before they do any work, and again once the inputs are known by name.
void expect_replaceable(const std::string& option, const std::filesystem::path& output, FileKind kind, bool force,
                        const std::vector<std::filesystem::path>& inputs = {});

/// Whether a regular file is of a kind. Throws StorageError where the storage fails.
bool is_of_kind(const std::filesystem::path& file, FileKind kind);

/// Writes a command's text to a device, a pipe or an open file, in place, and to any other file as a whole: others see
/// it complete or not at all. Throws FileError.
void write_output(const std::filesystem::path& output, std::string_view text);

}  // namespace foretime
