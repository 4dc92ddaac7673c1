#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// A file's bytes and its name, which starts messages. Pieces of it are views into `bytes`.
struct HloSource {
  std::string_view bytes;
  std::string name;

  /// Throws DataError `name: what`.
  [[noreturn]] void fail(const std::string& what) const;
  /// Position of a piece in the file.
  uint64_t offset(std::string_view piece) const { return static_cast<uint64_t>(piece.data() - bytes.data()); }
};

/// One field of an encoded protobuf message (protobuf.dev, "Encoding").
struct WireField {
  enum class Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::varint;
  uint64_t value = 0;      // type varint
  std::string_view bytes;  // type bytes: the contents
  std::string_view whole;  // tag and value, as they stand in the message

  bool is_bytes(uint32_t field) const { return number == field && type == Type::bytes; }
  bool is_varint(uint32_t field) const { return number == field && type == Type::varint; }
};

/// The fields of a message in their order, one after another, without recursion and without copies: how outer messages
/// are read whose inner ones may be many. Groups, which neither XLA nor TpuGraphs writes, are refused.
class WireReader {
 public:
  /// `message` is a piece of `source`, which must outlive the reader.
  WireReader(const HloSource& source, std::string_view message) : source_(source), left_(message) {}

  /// False at the end. Throws DataError, with the position in the file, where the bytes are no field.
  bool next(WireField& field);
  /// Whether a field follows; lengths that go past the end are cut there, and anything else that is no field ends the
  /// message. For finding out what a file holds before it is read.
  bool next_if_any(WireField& field);

 private:
  const char* take(WireField& field, bool may_be_cut);

  const HloSource& source_;
  std::string_view left_;
};

/// Where the parts of a ModuleTuningData lie (tuning.proto).
struct TuningOutline {
  std::vector<std::string_view> module;  // its HloModuleProto, in one piece in practice
  std::vector<std::string_view> runs;    // ConfigProfile
  std::vector<int64_t> layout_nodes;     // config_index_to_node: positions of nodes, not ids
  uint64_t fingerprint = 0;
};

/// Throws DataError for damaged protobuf.
TuningOutline outline_tuning(const HloSource& source, std::string_view module_tuning_data);

/// The runs that are candidates: where any run was measured, those that were; else all that did not fail, without
/// labels. A run was measured if it is not marked as an error and its profile has a time above 0; for tiles above
/// 1 ns, as in TpuGraphs.
struct TuningCandidates {
  CandidateKind kind = CandidateKind::layout;
  std::vector<std::string_view> runs;  // [candidates]
  std::vector<int64_t> runtimes;       // [candidates] nanoseconds; 0 without labels
  int64_t default_runtime = 0;         // of the first candidate that is marked as the default; 0 where none is
  int64_t left_out = 0;                // runs that are no candidates
};

/// Looks at what runs say of themselves, not at their configurations. Throws DataError for damaged protobuf, for runs
/// without a configuration, and where some configurations are tiles and others layouts.
TuningCandidates choose_candidates(const HloSource& source, const TuningOutline& tuning);

/// The 24 tile features of a run (TileSizeConfig: kernel, output and input bounds; products of empty lists are 0).
/// Throws DataError.
void read_tile_features(const HloSource& source, std::string_view run, float* features);

/// The 18 layout features of each of `nodes` nodes, in the order of config_index_to_node: output, input and kernel
/// layout with 6 dimensions each, -1 where there is none. Throws DataError where a run has another number of nodes, or
/// a node more than 3 tensors.
void read_layout_features(const HloSource& source, std::string_view run, int64_t nodes, float* features);

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

/// A .pb file, read or (a large one) mapped as long as this object lives, gzip of one, or its bytes.
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

  std::shared_ptr<const void> content_;
  HloSource source_;
  HloMessage message_ = HloMessage::module;
  std::vector<Module> modules_;
};

}  // namespace foretime::data
