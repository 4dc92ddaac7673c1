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

/// Returns a message with the length and checksums of an event file's record.
std::string record_of(std::string_view message);
/// Returns the messages of the whole records of a file, up to a damaged or incomplete one, as left by a killed process.
std::vector<std::string_view> messages_of(std::string_view file);

/// Starts the tags of scalars that are written at a run's end.
constexpr std::string_view kFinal = "final/";

/// Holds the settings by which a run is compared: a number, true or false, or any other text.
using Parameters = std::map<std::string, std::string>;

/// Writes the event file of a training into its run directory: one file for any number of attempts. Throws FileError.
class EventFile {
 public:
  /// Starts the file. If `first_step` is above 1, the training continues: copies the records of earlier steps from
  /// earlier files. Removes earlier files.
  EventFile(const std::filesystem::path& folder, int64_t first_step);
  ~EventFile();

  /// Returns whether no earlier records were copied.
  bool is_new() const { return new_; }
  /// Writes scalars.
  void scalars(int64_t step, const std::map<std::string, double>& values);
  /// Writes the distribution of the finite values; nothing if there are none.
  void histogram(int64_t step, const std::string& tag, std::span<const double> values);
  /// Writes Markdown, shown under TensorBoard's "Text".
  void text(const std::string& tag, const std::string& markdown);
  /// Starts this run's row under "HParams", with the scalar `metric`.
  void begin_hparams(const Parameters& parameters, const std::string& metric);
  /// Marks the run as successful.
  void end_hparams(int64_t step);
  void sync() { file_->sync(); }

 private:
  std::unique_ptr<OutputFile> file_;
  bool new_ = true;
};

}  // namespace foretime::tensorboard
