#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/hlo/tuning_runs.h"
#include "data/frontends/hlo/wire_reader.h"

namespace foretime::data {

/// The messages that a .pb file may hold.
enum class HloMessage : uint8_t {
  module,         // HloModuleProto
  hlo,            // HloProto, as XLA dumps it: a module and where its buffers lie
  module_tuning,  // ModuleTuningData: a module and runs of it
  tuning,         // TuningData: many of those
};

const char* message_name(HloMessage message);  // HloModuleProto, …

/// Which message these bytes are. Protobuf does not say, so the way to the first opcode does; empty where none of the
/// four has one. Looks no further than that.
std::optional<HloMessage> find_message(const HloSource& source);

/// A .pb file, mapped as long as this object lives, or its bytes.
class HloFile {
 public:
  /// Throws DataError where the file cannot be read, or is none of the messages. `message`: which it is, where that is
  /// known better than by its content.
  explicit HloFile(const std::filesystem::path& path, std::optional<HloMessage> message = {});

  /// Reads bytes that must outlive this object; `name` stands for the file in messages. Throws DataError.
  HloFile(std::string_view bytes, std::string name, std::optional<HloMessage> message = {});

  HloMessage message() const { return message_; }
  const HloSource& source() const { return source_; }

  /// A module with its runs, if it has any.
  struct Module {
    std::string name;        // of its group, fit for a file name and distinct within the file
    std::string_view bytes;  // of all that is known of it
  };
  /// One, but for TuningData. Groups are named as their file; those of TuningData file_module, with the fingerprint
  /// behind it where modules share a name.
  const std::vector<Module>& modules() const { return modules_; }
  /// Throws DataError for damaged protobuf.
  TuningOutline outline(const Module& module) const;

 private:
  void open(const std::string& stem, std::optional<HloMessage> message);
  void list_modules(const std::string& stem);

  std::shared_ptr<const void> mapping_;
  HloSource source_;
  HloMessage message_ = HloMessage::module;
  std::vector<Module> modules_;
};

}  // namespace foretime::data
