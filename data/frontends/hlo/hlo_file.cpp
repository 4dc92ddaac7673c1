#include "data/frontends/hlo/hlo_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "data/files/byte_source.h"
#include "data/files/file_form.h"
#include "data/frontends/hlo/hlo.pb.h"
#include "data/frontends/hlo/node_features.h"

namespace foretime::data {
namespace {

bool is_known(uint64_t type) { return type == 0 || type == 1 || type == 2 || type == 5; }

}  // namespace

void HloSource::fail(const std::string& what) const { throw DataError("{}: {}", name, what); }

/// Null, or what is wrong.
const char* WireReader::take(WireField& field, bool may_be_cut) {
  constexpr size_t kMost = std::numeric_limits<int>::max();  // protobuf's messages are not larger
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(left_.data()),
                                            std::min(left_.size(), kMost));
  uint64_t tag = 0, length = 0;
  if (!in.ReadVarint64(&tag)) return "no tag of a field";
  const uint64_t number = tag >> 3;
  if (number == 0 || number >= uint64_t{1} << 29) return "a field number out of range";
  if (!is_known(tag & 7)) return "a group or an unknown wire type";
  field = {static_cast<uint32_t>(number), static_cast<WireField::Type>(tag & 7), 0, {}, {}};
  if (field.type == WireField::Type::varint) {
    if (!in.ReadVarint64(&field.value)) return "a number that does not end";
  } else if (field.type == WireField::Type::bytes) {
    if (!in.ReadVarint64(&length)) return "a length that does not end";
  } else {
    length = field.type == WireField::Type::fixed64 ? 8 : 4;
  }
  const auto rest = left_.substr(in.CurrentPosition());
  if (field.type != WireField::Type::bytes) may_be_cut = false;
  if (length > rest.size() && !may_be_cut)
    return field.type == WireField::Type::bytes ? "a length past the end of its message"
                                                : "a number past the end of its message";
  const auto contents = rest.substr(0, std::min<uint64_t>(length, rest.size()));
  if (field.type == WireField::Type::bytes) field.bytes = contents;
  field.whole = left_.substr(0, left_.size() - rest.size() + contents.size());
  left_.remove_prefix(field.whole.size());
  return nullptr;
}

bool WireReader::next(WireField& field) {
  if (left_.empty()) return false;
  if (const char* wrong = take(field, false))
    source_.fail(fmt::format("byte {}: {}, expected a protobuf field; the file is cut off or damaged",
                             source_.offset(left_), wrong));
  return true;
}

bool WireReader::next_if_any(WireField& field) { return !left_.empty() && take(field, true) == nullptr; }

namespace {

/// Field numbers that lead from a message to an instruction's opcode.
constexpr std::array<uint32_t, 3> kFromModule = {3, 2, 2};           // computations, instructions, opcode
constexpr std::array<uint32_t, 4> kFromModuleTuning = {1, 3, 2, 2};  // module; HloProto has it at the same place
constexpr std::array<uint32_t, 5> kFromTuning = {1, 1, 3, 2, 2};     // modules
constexpr uint32_t kRunsOrBuffers = 3;

bool is_opcode(std::string_view text) {
  constexpr size_t kLongest = 64;
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !text.empty() && text.size() <= kLongest && text[0] >= 'a' && text[0] <= 'z' &&
         std::ranges::all_of(text, fits);
}

/// Returns whether some field at the end of the path holds an opcode. Reads each byte once for each step of the path.
bool leads_to_opcode(const HloSource& source, std::string_view message, std::span<const uint32_t> path) {
  if (path.empty()) return is_opcode(message);
  WireReader reader(source, message);
  for (WireField field; reader.next_if_any(field);)
    if (field.is_bytes(path[0]) && leads_to_opcode(source, field.bytes, path.subspan(1))) return true;
  return false;
}

/// HloProto's field 3 is a BufferAssignmentProto, whose field 3 is a message; that of ModuleTuningData is a run, whose
/// field 3 is a truth value.
bool has_buffers(const HloSource& source) {
  WireReader reader(source, source.bytes);
  for (WireField field; reader.next_if_any(field);) {
    if (!field.is_bytes(kRunsOrBuffers)) continue;
    WireReader inner(source, field.bytes);
    for (WireField part; inner.next_if_any(part);)
      if (part.is_bytes(kRunsOrBuffers)) return true;
  }
  return false;
}

}  // namespace

std::optional<HloMessage> find_message(const HloSource& source) {
  if (leads_to_opcode(source, source.bytes, kFromModule)) return HloMessage::module;
  if (leads_to_opcode(source, source.bytes, kFromModuleTuning))
    return has_buffers(source) ? HloMessage::hlo : HloMessage::module_tuning;
  if (leads_to_opcode(source, source.bytes, kFromTuning)) return HloMessage::tuning;
  return {};
}

namespace {

enum TuningField : uint32_t { kTuningModule = 1, kFingerprint = 2, kRuns = 3, kConfigIndexToNode = 4 };
using Run = hlo::ConfigProfile;

/// Runs, and configurable nodes, of one module: of TpuGraphs' none has more than 100,040. A run of four bytes takes
/// some hundred once it is listed.
constexpr size_t kMostRuns = 4'000'000;
constexpr int kTileDimensions = 6;
constexpr int kTensors = 3;

struct RunState {
  CandidateKind kind = CandidateKind::layout;
  bool configured = false, failed = false, is_default = false;
  int64_t runtime = 0;
};

int64_t run_time(const HloSource& source, std::string_view profile) {
  int64_t time = 0;
  WireReader reader(source, profile);
  for (WireField field; reader.next(field);)
    if (field.is_varint(hlo::ExecutionProfile::kComputeTimeNsFieldNumber)) time = field.value;
  return time;
}

RunState state_of(const HloSource& source, std::string_view run) {
  RunState state;
  WireReader reader(source, run);
  for (WireField field; reader.next(field);) {
    const bool tile = field.is_bytes(Run::kOpConfigFieldNumber);
    if (tile || field.is_bytes(Run::kModuleConfigFieldNumber)) {
      state.kind = tile ? CandidateKind::tile : CandidateKind::layout;
      state.configured = true;
    }
    if (field.is_varint(Run::kErrorFieldNumber)) state.failed = field.value != 0;
    if (field.is_varint(Run::kIsDefaultFieldNumber)) state.is_default = field.value != 0;
    if (field.is_bytes(Run::kProfileFieldNumber)) state.runtime = run_time(source, field.bytes);
  }
  if (!state.failed && !state.configured)
    source.fail(fmt::format("byte {}: a run with neither op_config nor module_config", source.offset(run)));
  const int64_t least = state.kind == CandidateKind::tile ? 2 : 1;
  if (state.failed || state.runtime < least) state.runtime = 0;
  return state;
}

void add_positions(const HloSource& source, const WireField& field, std::vector<int64_t>& positions) {
  if (field.type == WireField::Type::varint) positions.push_back(field.value);
  uint64_t value = 0;
  int shift = 0;
  for (const char c : field.bytes) {  // packed
    const uint8_t byte = c;
    if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
    shift += 7;
    if (byte >= 0x80) continue;
    if (positions.size() > kMostRuns) return;
    positions.push_back(value);
    value = 0;
    shift = 0;
  }
  if (shift != 0)
    source.fail(fmt::format("byte {}: config_index_to_node ends inside a number", source.offset(field.whole)));
}

/// `most`: bytes that a run may have. Parsed messages are some dozens of times larger than their bytes.
void parse(const HloSource& source, std::string_view bytes, size_t most, Run& run) {
  if (bytes.size() > most)
    source.fail(
        fmt::format("byte {}: a run of {} bytes, expected at most {}", source.offset(bytes), bytes.size(), most));
  if (!run.ParseFromArray(bytes.data(), bytes.size()))
    source.fail(fmt::format("byte {}: no ConfigProfile; the file is damaged", source.offset(bytes)));
}

}  // namespace

TuningOutline outline_tuning(const HloSource& source, std::string_view module_tuning_data) {
  TuningOutline tuning;
  WireReader reader(source, module_tuning_data);
  for (WireField field; reader.next(field);) {
    if (field.is_bytes(kTuningModule)) tuning.module.push_back(field.bytes);
    if (field.is_varint(kFingerprint)) tuning.fingerprint = field.value;
    if (field.is_bytes(kRuns)) tuning.runs.push_back(field.bytes);
    if (field.number == kConfigIndexToNode) add_positions(source, field, tuning.layout_nodes);
    if (std::max(tuning.runs.size(), tuning.layout_nodes.size()) > kMostRuns)
      source.fail(fmt::format("more than {} runs or configurable nodes of one module, which is the limit", kMostRuns));
  }
  return tuning;
}

TuningCandidates choose_candidates(const HloSource& source, const TuningOutline& tuning) {
  std::vector<RunState> states;
  states.reserve(tuning.runs.size());
  bool measured = false;
  for (const auto run : tuning.runs) {
    states.push_back(state_of(source, run));
    measured |= states.back().runtime > 0;
  }
  TuningCandidates chosen;
  for (size_t i = 0; i < states.size(); ++i) {
    const RunState& state = states[i];
    if (measured ? state.runtime == 0 : state.failed) {
      continue;
    }
    if (!chosen.runs.empty() && state.kind != chosen.kind)
      source.fail(fmt::format(
          "byte {}: run {} has another kind of configuration than those before it, expected tiles or layouts for all",
          source.offset(tuning.runs[i]), i));
    chosen.kind = state.kind;
    chosen.runs.push_back(tuning.runs[i]);
    chosen.runtimes.push_back(state.runtime);
    if (state.is_default && chosen.default_runtime == 0) chosen.default_runtime = state.runtime;
  }
  return chosen;
}

void read_tile_features(const HloSource& source, std::string_view bytes, float* features) {
  constexpr size_t kMost = 64 << 10;
  Run run;
  parse(source, bytes, kMost, run);
  const auto& tile = run.op_config().tile_size_config();
  FeatureRow row(features);
  const auto as_it_is = [](int64_t bound) { return bound; };
  row.totals("kernel bounds", tile.kernel_bounds(), kTileDimensions, as_it_is, 0);
  row.totals("output bounds", tile.output_bounds(), kTileDimensions, as_it_is, 0);
  row.totals("input bounds", tile.input_bounds(), kTileDimensions, as_it_is, 0);
  if (!row.wrong().empty()) source.fail(fmt::format("byte {}: a run: {}", source.offset(bytes), row.wrong()));
}

void read_layout_features(const HloSource& source, std::string_view bytes, int64_t nodes, float* features) {
  const size_t most = (64 << 10) + 256 * nodes;
  Run run;
  parse(source, bytes, most, run);
  const auto& layouts = run.module_config().layout_config().nodes();
  if (layouts.size() != nodes)
    source.fail(fmt::format("byte {}: a run with layouts of {} nodes, expected {} as config_index_to_node has",
                            source.offset(bytes), layouts.size(), nodes));
  std::fill_n(features, nodes * kLayoutFeatures, -1.0f);
  for (const auto& node : layouts) {
    if (node.tensors_size() > kTensors)
      source.fail(fmt::format("byte {}: a run with layouts of {} tensors at one node, expected at most {}",
                              source.offset(bytes), node.tensors_size(), kTensors));
    for (int t = 0; t < node.tensors_size(); ++t) {
      const auto& dimensions = node.tensors(t).dims();
      std::copy_n(dimensions.begin(), std::min(dimensions.size(), kTileDimensions),
                  features + int64_t{t} * kTileDimensions);
    }
    features += kLayoutFeatures;
  }
}

namespace {

constexpr uint32_t kModules = 1;          // field of TuningData
constexpr uint32_t kModule = 1;           // field of ModuleTuningData and HloProto
constexpr uint32_t kModuleName = 1;       // field of HloModuleProto
constexpr size_t kMostModules = 200'000;  // TpuGraphs' tile collection has 7,229
constexpr size_t kNameBytes = 120;        // longest module name in a group's name
constexpr size_t kTextStart = 64 << 10;   // bytes that show whether a file is text

/// The bytes of a file: read, so that it may change, or mapped where it is large, as tuning data may be.
std::shared_ptr<const void> open_bytes(const std::string& path, std::string_view& bytes) {
  constexpr uint64_t kReadBytes = uint64_t{64} << 20, kMostOfGzip = uint64_t{1} << 30;
  const auto fail = [&](const char* what) { throw DataError("{}: {}", path, what); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw_file_error(path, "cannot be read", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_file_error(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) fail("not a regular file, expected a file with an HLO module");
  expect_form(path, {FileForm::hlo}, "HloModuleProto, HloProto, ModuleTuningData or TuningData");
  ByteSource source(path);
  if (source.gzip()) {
    auto content = std::make_shared<const std::string>(source.read_text(kMostOfGzip + 1));
    if (content->size() > kMostOfGzip) fail("more than 1 GiB in gzip, which is the limit: unpack it first");
    bytes = *content;
    return content;
  }
  const uint64_t size = status.st_size;
  if (size > kReadBytes) {
    auto mapping = std::make_shared<const MappedFile>(file.get(), path, 0, size);
    bytes = {reinterpret_cast<const char*>(mapping->bytes(0, size).data()), size};
    return mapping;
  }
  auto content = std::make_shared<const std::string>(files().read(path));
  bytes = *content;
  return content;
}

std::string file_name_of(std::string_view name) {
  std::string fit(name.substr(0, kNameBytes));
  for (char& c : fit) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '.' && c != '-' && c != '_') c = '_';
  }
  return fit;
}

std::string module_name(const HloSource& source, std::string_view module_tuning_data) {
  std::string_view name;
  WireReader reader(source, module_tuning_data);
  for (WireField field; reader.next(field);) {
    if (!field.is_bytes(kModule)) continue;
    WireReader module(source, field.bytes);
    // The name comes first; to look on would be to read all of the module.
    WireField first;
    if (module.next(first) && first.is_bytes(kModuleName)) name = first.bytes;
  }
  return file_name_of(name);
}

}  // namespace

HloFile::HloFile(const std::filesystem::path& path) {
  source_.name = path.string();
  content_ = open_bytes(source_.name, source_.bytes);
  open((path.extension() == ".gz" ? path.stem() : path).stem().string());
}

HloFile::HloFile(std::string_view bytes, std::string name) {
  source_ = {.bytes = bytes, .name = std::move(name)};
  open(source_.name);
}

void HloFile::open(const std::string& stem) {
  if (is_hlo_text(source_.bytes.substr(0, kTextStart))) {
    auto converted = std::make_shared<const std::string>(hlo_text_to_proto(source_.bytes, source_.name));
    source_.bytes = *converted;
    content_ = std::move(converted);
  }
  const auto found = find_message(source_);
  if (!found)
    source_.fail(
        "no instruction with an opcode in it, expected HloModuleProto, HloProto, "
        "ModuleTuningData or TuningData as binary protobuf, or a module as XLA's text");
  message_ = *found;
  list_modules(stem);
}

void HloFile::list_modules(const std::string& stem) {
  if (message_ != HloMessage::tuning) {
    modules_.push_back({stem, source_.bytes});
    return;
  }
  std::set<std::string> names;
  WireReader reader(source_, source_.bytes);
  for (WireField field; reader.next(field);) {
    if (!field.is_bytes(kModules)) continue;
    if (modules_.size() == kMostModules)
      source_.fail(fmt::format("more than {} modules, which is the limit", kMostModules));
    std::string name = fmt::format("{}_{}", stem, module_name(source_, field.bytes));
    if (names.contains(name)) name += fmt::format("_{:016x}", outline_tuning(source_, field.bytes).fingerprint);
    if (names.contains(name)) name += fmt::format("_{}", modules_.size());
    names.insert(name);
    modules_.push_back({std::move(name), field.bytes});
  }
}

TuningOutline HloFile::outline(const Module& module) const {
  switch (message_) {
    case HloMessage::module: return {.module = {module.bytes}, .runs = {}, .layout_nodes = {}};
    case HloMessage::hlo: {
      TuningOutline outline;
      WireReader reader(source_, module.bytes);
      for (WireField field; reader.next(field);)
        if (field.is_bytes(kModule)) outline.module.push_back(field.bytes);
      return outline;
    }
    default: return outline_tuning(source_, module.bytes);
  }
}

}  // namespace foretime::data
