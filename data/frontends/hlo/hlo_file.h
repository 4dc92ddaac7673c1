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

/// Holds a file's bytes, and its name as prefix of messages. Pieces of the file are views into `bytes`.
struct HloSource {
  std::string_view bytes;
  std::string name;

  /// Throws DataError `name: what`.
  [[noreturn]] void fail(const std::string& what) const;
  /// Returns the position of a piece in the file.
  uint64_t offset(std::string_view piece) const { return piece.data() - bytes.data(); }
};

/// Holds one field of an encoded protobuf message (protobuf.dev, "Encoding").
struct WireField {
  enum class Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::varint;
  uint64_t value = 0;      // type varint
  std::string_view bytes;  // type bytes: the contents
  std::string_view whole;  // tag and value, unchanged

  bool is_bytes(uint32_t field) const { return number == field && type == Type::bytes; }
  bool is_varint(uint32_t field) const { return number == field && type == Type::varint; }
};

/// Reads the fields of a message one after another, without recursion or copies, for outer messages with many inner
/// ones. Refuses protobuf groups, which neither XLA nor TpuGraphs writes.
class WireReader {
 public:
  /// Starts at the first field. `message` is a piece of `source`, which must outlive the reader.
  WireReader(const HloSource& source, std::string_view message) : source_(source), left_(message) {}

  /// Reads the next field; returns false at the end. Throws DataError with the position in the file if the bytes are
  /// not a field.
  bool next(WireField& field);
  /// Reads the next field if there is one. Cuts a length that exceeds the message, and treats other invalid bytes as
  /// its end. Used to recognise the content of a file.
  bool next_if_any(WireField& field);

 private:
  /// Parses one field; returns the error, null if there is none.
  const char* take(WireField& field, bool may_be_cut);

  const HloSource& source_;
  std::string_view left_;
};

/// Locates the parts of a ModuleTuningData (tuning.proto).
struct TuningOutline {
  std::vector<std::string_view> module;  // pieces of its HloModuleProto, in practice one
  std::vector<std::string_view> runs;    // ConfigProfile
  std::vector<int64_t> layout_nodes;     // config_index_to_node: positions of nodes, not ids
  uint64_t fingerprint = 0;
};

/// Locates the parts of a message. Throws DataError for damaged protobuf.
TuningOutline outline_tuning(const HloSource& source, std::string_view module_tuning_data);

/// Holds the runs that are candidates: the measured ones if any run was measured; otherwise all that did not fail,
/// without labels. A run was measured if it is not marked as an error and its profile has a time above 0; for tiles
/// above 1 ns, as in TpuGraphs.
struct TuningCandidates {
  CandidateKind kind = CandidateKind::layout;
  std::vector<std::string_view> runs;  // [candidates]
  std::vector<int64_t> runtimes;       // [candidates] nanoseconds; 0 without labels
  int64_t default_runtime = 0;         // first candidate marked as the default; 0: none
  int64_t skipped = 0;                 // skipped runs
};

/// Selects candidates by the runs' profiles, without reading their configurations. Throws DataError for damaged
/// protobuf, for runs without a configuration, and if tiles and layouts are mixed.
TuningCandidates choose_candidates(const HloSource& source, const TuningOutline& tuning);

/// Writes the 24 tile features of a run to `features` (TileSizeConfig: kernel, output and input bounds; products of
/// empty lists are 0). Throws DataError.
void read_tile_features(const HloSource& source, std::string_view run, float* features);

/// Writes the 18 layout features of each of `nodes` nodes to `features`, in the order of config_index_to_node: output,
/// input and kernel layout with 6 dimensions each, -1 for missing ones. Throws DataError if a run has another number of
/// nodes, or a node more than 3 tensors.
void read_layout_features(const HloSource& source, std::string_view run, int64_t nodes, float* features);

/// Lists the messages that a .pb file may hold.
enum class HloMessage : uint8_t {
  module,         // HloModuleProto
  hlo,            // HloProto, as XLA dumps it: a module and its buffer assignment
  module_tuning,  // ModuleTuningData: a module and its runs
  tuning,         // TuningData: many ModuleTuningData
};

const char* message_name(HloMessage message);  // HloModuleProto, …

/// Returns the type of message in these bytes, recognised by the path to the first opcode, since protobuf does not
/// record it. Empty if none of the four fits.
std::optional<HloMessage> find_message(const HloSource& source);

/// Opens a .pb file or a module as XLA's text (hlo_text.h), plain or gzip; a large plain .pb is mapped as long as this
/// object lives.
class HloFile {
 public:
  /// Opens a file. `message` overrides the type found from its content. Throws DataError if the file cannot be read or
  /// holds none of the messages.
  explicit HloFile(const std::filesystem::path& path, std::optional<HloMessage> message = {});

  /// Reads bytes that must outlive this object; `name` is used as the file's name in messages. Throws DataError.
  HloFile(std::string_view bytes, std::string name, std::optional<HloMessage> message = {});

  HloMessage message() const { return message_; }
  const HloSource& source() const { return source_; }

  /// Holds a module with its runs, if it has any.
  struct Module {
    std::string name;        // name of its group, valid as a file name and unique within the file
    std::string_view bytes;  // the module's whole message
  };
  /// Returns the modules: one, except for TuningData. Groups have the name of the file; those of TuningData are named
  /// file_module, followed by the fingerprint if modules share a name.
  const std::vector<Module>& modules() const { return modules_; }
  /// Locates the parts of a module. Throws DataError for damaged protobuf.
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
