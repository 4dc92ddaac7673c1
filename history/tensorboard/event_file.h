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

/// Event files as TensorBoard reads them, and importers of W&B and MLflow: records of protobuf messages, each with
/// checksums.
namespace foretime::tensorboard {

/// CRC-32C, rotated right by 15 bits, plus 0xa282ead8 (TFRecord's "masked" checksum).
uint32_t masked_crc(std::string_view bytes);

/// A record as it stands in an event file.
std::string record_of(std::string_view message);
/// The whole records of a file, up to one that is damaged or not whole, as a process that was killed leaves it.
std::vector<std::string_view> messages_of(std::string_view file);

/// How tags of scalars begin that are written at a run's end.
constexpr std::string_view kFinal = "final/";

/// One value of the settings that a run is compared by: a number, true or false, or any other text.
using Parameters = std::map<std::string, std::string>;

/// The event file of a training, in its run directory: one file, whatever the number of attempts. Throws FileError.
class EventFile {
 public:
  /// Begins the file. Where `first_step` is above 1 the training goes on: what earlier files have of steps before it
  /// comes along. Earlier files go.
  EventFile(const std::filesystem::path& folder, int64_t first_step);
  ~EventFile();

  /// Whether nothing came along.
  bool is_new() const { return new_; }
  void scalars(int64_t step, const std::map<std::string, double>& values);
  /// How the finite ones of `values` are distributed; nothing where there is none.
  void histogram(int64_t step, const std::string& tag, std::span<const double> values);
  /// Markdown, shown under TensorBoard's "Text".
  void text(const std::string& tag, const std::string& markdown);
  /// The row of this run under "HParams", with the scalar `metric`.
  void begin_hparams(const Parameters& parameters, const std::string& metric);
  /// The run has ended well.
  void end_hparams(int64_t step);
  void sync() { file_->sync(); }

 private:
  std::unique_ptr<OutputFile> file_;
  bool new_ = true;
};

}  // namespace foretime::tensorboard
