#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace foretime {

/// Reports an output that the command must not replace. The user names another file or adds --force.
struct OutputRefused : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// Names the kinds of files that commands write, as far as their bytes show it (the table in output_target.cpp).
enum class FileKind : uint8_t {
  collection,   // packed groups (data/files/packed_file.h)
  bundle,       // a model (inference/bundle/bundle.h)
  torchscript,  // a model (worker/export/bundles.h)
  ranking,      // CSV, JSON or submission of `rank`, `evaluate` and trials
  report,       // HTML of `report`
  machine,      // YAML or JSON of `target measure`
  experiment    // tables and summary of an experiment
};

/// The marks by which some files are recognised, anywhere in the first 64 KiB of a report, and in the first or last
/// 64 KiB of an experiment's summary.
inline constexpr std::string_view kReportMark = "<meta name=\"generator\" content=\"Foretime report\">";
inline constexpr std::string_view kExperimentMark = "<!-- Foretime experiment -->";

/// Throws OutputRefused unless a command may write a file of `kind` to `output`: a new file, an empty file, or a file
/// of `kind`. A file that is one of `inputs`, directly or through links, is refused. `force` allows every file, also
/// inputs, but no folder. Devices, pipes and the open files in /dev/fd accept kinds of text only, even with `force`.
/// `option`, such as "-o" or "", precedes the file's name in messages. Throws StorageError if the storage fails.
///
/// Commands call this before they do any work, and again once the inputs are known by name.
void expect_replaceable(const std::string& option, const std::filesystem::path& output, FileKind kind, bool force,
                        const std::vector<std::filesystem::path>& inputs = {});

/// Returns whether a regular, readable file has the marks of a kind. Throws StorageError if the storage fails.
bool is_of_kind(const std::filesystem::path& file, FileKind kind);

/// Appends a command's text to a device, a pipe or an open file (/dev/stdout, /dev/fd/…), and replaces any other file
/// by AtomicFile. Throws FileError, also as StorageError.
void write_output(const std::filesystem::path& output, std::string_view text);

}  // namespace foretime
