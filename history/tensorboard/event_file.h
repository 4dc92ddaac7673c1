#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

/// Writes event files for TensorBoard and for importers of W&B and MLflow: records of protobuf messages, each with
/// checksums.
namespace foretime::tensorboard {

/// Returns CRC-32C, rotated right by 15 bits, plus 0xa282ead8 (TFRecord's "masked" checksum).
uint32_t masked_crc(std::string_view bytes);

/// Returns the record of an event file that holds `message`: its length, its bytes and two checksums.
std::string record_of(std::string_view message);
/// Returns the messages in an event file's bytes, as views into `file`, up to the first damaged or incomplete record.
std::vector<std::string_view> messages_of(std::string_view file);

/// Starts the tags of scalars that are written at a run's end.
constexpr std::string_view kFinal = "final/";

/// Holds the settings by which runs are compared, by name: each a number, true or false, or any other text.
using Parameters = std::map<std::string, std::string>;

/// Writes the event file of a training into its run directory: one file for any number of attempts. Throws FileError.
class EventFile {
 public:
  /// Starts a new file in `folder`, and removes earlier event files of Foretime. If `first_step` is above 1 (the
  /// training continues), first copies their records of earlier steps, except those that belong to a run's end.
  EventFile(const std::filesystem::path& folder, int64_t first_step);
  ~EventFile();

  /// Returns whether no earlier records were copied.
  bool is_new() const { return new_; }
  /// Writes scalars by tag; nothing if there are none.
  void scalars(int64_t step, const std::map<std::string, double>& values);
  /// Writes a histogram of the finite values with 30 equal buckets, or 1 if all are equal; nothing if none is finite.
  void histogram(int64_t step, const std::string& tag, std::span<const double> values);
  /// Writes Markdown for step 0, which TensorBoard shows under "Text".
  void text(const std::string& tag, const std::string& markdown);
  /// Writes the parameters of this run, which TensorBoard shows under "HParams" with the scalar of tag `metric`.
  void begin_hparams(const Parameters& parameters, const std::string& metric);
  void end_hparams(int64_t step);  // marks the run as successful
  void sync() { file_->sync(); }   // waits until all that was written is on disk

 private:
  std::unique_ptr<OutputFile> file_;
  bool new_ = true;
};

}  // namespace foretime::tensorboard
