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

/// Holds a file's bytes as protobuf, decompressed, and its name as prefix of messages. Pieces are views into `bytes`.
struct HloSource {
  std::string_view bytes;
  std::string name;

  /// Throws DataError `name: what`.
  [[noreturn]] void fail(const std::string& what) const;
  /// Returns the position in `bytes` at which a piece begins.
  uint64_t offset(std::string_view piece) const { return piece.data() - bytes.data(); }
};

/// Holds one field of an encoded protobuf message (protobuf.dev, "Encoding").
struct WireField {
  enum class Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::varint;
  uint64_t value = 0;      // number of type varint; 0 for other types
  std::string_view bytes;  // contents of type bytes; empty for other types
  std::string_view whole;  // tag and value as they are in the message

  bool is_bytes(uint32_t field) const { return number == field && type == Type::bytes; }
  bool is_varint(uint32_t field) const { return number == field && type == Type::varint; }
};

/// Reads the fields of a protobuf message one after another, without recursion or copies. Protobuf groups are errors.
class WireReader {
 public:
  /// Starts at the first field of `message`, which is a piece of `source`. `source` must outlive the reader.
  WireReader(const HloSource& source, std::string_view message) : source_(source), left_(message) {}

  /// Reads the next field; returns false at the end of the message. Throws DataError with the position in the file if
  /// the next bytes are not a whole field.
  bool next(WireField& field);
  /// Reads the next field; returns false at the end of the message and if the next bytes are not a field. A field of
  /// type bytes that is longer than the rest of the message is cut to that rest.
  bool next_if_any(WireField& field);

 private:
  /// Parses one field; returns what is wrong, else null. `may_be_cut`: its bytes may exceed the rest of the message.
  const char* take(WireField& field, bool may_be_cut);

  const HloSource& source_;
  std::string_view left_;
};

/// Holds the places of the parts of a ModuleTuningData (hlo.proto).
struct TuningOutline {
  std::vector<std::string_view> module;  // encoded HloModuleProto; protobuf allows several pieces, in practice one
  std::vector<std::string_view> runs;    // an encoded ConfigProfile for each run
  std::vector<int64_t> layout_nodes;     // config_index_to_node: indices of the configurable nodes in the graph
  uint64_t fingerprint = 0;              // fingerprint of the module that the file states; 0: none
};

/// Locates the parts of a ModuleTuningData. Throws DataError for damaged protobuf and above 4,000,000 runs or nodes.
TuningOutline outline_tuning(const HloSource& source, std::string_view module_tuning_data);

/// Holds the runs of a module that are candidates: the measured runs if any run was measured; otherwise all runs that
/// did not fail, without run times. A run was measured if it is not marked as an error and its profile has a time above
/// 0 ns; for tiles above 1 ns, as in TpuGraphs.
struct TuningCandidates {
  CandidateKind kind = CandidateKind::layout;
  std::vector<std::string_view> runs;  // [candidates] encoded ConfigProfiles
  std::vector<int64_t> runtimes;       // [candidates] nanoseconds; all 0 if no run was measured
  int64_t default_runtime = 0;         // nanoseconds of the first candidate that is marked as the default; 0: none
};

/// Selects the candidates among the runs, without reading their configurations. Throws DataError for damaged protobuf,
/// for a run that neither failed nor has a configuration, and if some candidates are tiles and others layouts.
TuningCandidates choose_candidates(const HloSource& source, const TuningOutline& tuning);

/// Writes the 24 tile features of a run to `features`: for kernel, output and input each the first six bounds of its
/// TileSizeConfig, padded with 0, and the sum and product of all bounds (both 0 without bounds). Throws DataError for
/// damaged protobuf, a run of more than 64 KiB, and sums or products beyond 64 bits.
void read_tile_features(const HloSource& source, std::string_view run, float* features);

/// Writes the 18 layout features of each of a run's `nodes` nodes to `features`, in the order of config_index_to_node:
/// the layouts of output, input and kernel with 6 dimensions each. Missing dimensions are -1, further ones are left
/// out. Throws DataError if the run has another number of nodes, more than 3 tensors at a node, or is damaged or above
/// 64 KiB + 256 bytes a node.
void read_layout_features(const HloSource& source, std::string_view run, int64_t nodes, float* features);

/// Lists the messages that a .pb file may hold.
enum class HloMessage : uint8_t {
  module,         // HloModuleProto
  hlo,            // HloProto, as XLA dumps it: a module and its buffer assignment
  module_tuning,  // ModuleTuningData: a module and its runs
  tuning,         // TuningData: many ModuleTuningData
};

/// Returns the type of message that the bytes of `source` are: protobuf does not record the type, so that it is
/// recognised by the fields in which an opcode is found. Empty if there is no opcode in any such place.
std::optional<HloMessage> find_message(const HloSource& source);

/// Opens a .pb file or a module as XLA's text, plain or gzip. A plain file above 64 MiB is mapped as long
/// as this object or a copy of it lives; all other files are read.
class HloFile {
 public:
  /// Opens a file. Throws FileError if the file cannot be read, and DataError if it is none of the messages, damaged,
  /// above 1 GiB inside gzip or above 200,000 modules.
  explicit HloFile(const std::filesystem::path& path);

  /// Reads plain bytes, which must outlive this object, as the content of a file `name`. Throws DataError likewise.
  HloFile(std::string_view bytes, std::string name);

  HloMessage message() const { return message_; }
  const HloSource& source() const { return source_; }

  /// Holds a module with its runs, if it has any.
  struct Module {
    std::string name;        // name of the module's group, unique within the file
    std::string_view bytes;  // encoded message of the file's type; in TuningData a ModuleTuningData
  };
  /// Returns the modules: one, except for TuningData. A single module has the name of the file without extensions;
  /// those of TuningData are named file_module, with the fingerprint (and index, if needed) where names would be equal.
  const std::vector<Module>& modules() const { return modules_; }
  /// Locates the parts of a module; there are no runs except in tuning data. Throws DataError for damaged protobuf.
  TuningOutline outline(const Module& module) const;

 private:
  void open(const std::string& stem);          // sets all members from source_
  void list_modules(const std::string& stem);  // fills modules_, whose names are or begin with `stem`

  std::shared_ptr<const void> content_;  // owner of source_.bytes; null for bytes of the caller
  HloSource source_;
  HloMessage message_ = HloMessage::module;
  std::vector<Module> modules_;
};

/// Returns whether a file that begins with `start` is module text: its first word after comments is HloModule.
bool is_hlo_text(std::string_view start);

/// Converts a module as XLA prints it (HloModule::ToString, the default of --xla_dump_to) to the bytes of an
/// HloModuleProto, and returns them. The fields of hlo.proto are set as in XLA's own message, except that ids are in
/// the order of the text; graph and features are the same. What a graph does not use (literals, sharding, metadata,
/// backend_config, and other attributes) is skipped. A computation without ROOT has its last instruction as root.
/// `name` is the prefix of messages.
///
/// Throws DataError `name: line N: …` for text that is no module: unfinished brackets and quotes, operands and called
/// computations that are not defined before, computations without instructions or with several roots, repeated names,
/// none or several ENTRY computations, shapes and attributes that cannot be read, and asynchronous operations in XLA's
/// short form, which leaves their computation out.
std::string hlo_text_to_proto(std::string_view text, const std::string& name);

}  // namespace foretime::data
