#include <algorithm>
#include <array>
#include <span>

#include "data/frontends/hlo/hlo_file.h"

namespace foretime::data {
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
         std::all_of(text.begin(), text.end(), fits);
}

/// Whether some field at the end of the path holds an opcode. Each byte is looked at once for each step of the path.
bool leads_to_opcode(const HloSource& source, std::string_view message, std::span<const uint32_t> path) {
  if (path.empty()) return is_opcode(message);
  WireReader reader(source, message);
  for (WireField field; reader.next_if_any(field);) {
    if (field.is_bytes(path[0]) && leads_to_opcode(source, field.bytes, path.subspan(1))) return true;
  }
  return false;
}

/// HloProto's field 3 is a BufferAssignmentProto, whose field 3 is a message; that of ModuleTuningData is a run, whose
/// field 3 is a truth value.
bool has_buffers(const HloSource& source) {
  WireReader reader(source, source.bytes);
  for (WireField field; reader.next_if_any(field);) {
    if (!field.is_bytes(kRunsOrBuffers)) continue;
    WireReader inner(source, field.bytes);
    for (WireField part; inner.next_if_any(part);) {
      if (part.is_bytes(kRunsOrBuffers)) return true;
    }
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

const char* message_name(HloMessage message) {
  constexpr std::array<const char*, 4> kNames = {"HloModuleProto", "HloProto", "ModuleTuningData", "TuningData"};
  return kNames[static_cast<size_t>(message)];
}

}  // namespace foretime::data
