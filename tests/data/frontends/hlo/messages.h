#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/frontends/hlo/hlo.pb.h"
#include "data/frontends/hlo/module_graph.h"
#include "tests/support/scratch.h"

/// HLO messages for tests: inner ones by protobuf, outer ones, which the reader walks, field by field.
namespace foretime::testing {
using namespace data;

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

inline std::string number_field(uint32_t field, uint64_t value) { return varint(field << 3) + varint(value); }

inline std::string bytes_field(uint32_t field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}

using Instruction = hlo::HloInstructionProto;

inline Instruction instruction(int64_t id, const std::string& opcode, const std::vector<int64_t>& operands = {},
                               const std::vector<int64_t>& sizes = {2, 3}) {
  Instruction made;
  made.set_id(id);
  made.set_name(opcode + "." + std::to_string(id));
  made.set_opcode(opcode);
  made.mutable_shape()->set_element_type(11);
  for (const int64_t size : sizes) made.mutable_shape()->add_dimensions(size);
  for (const int64_t operand : operands) made.add_operand_ids(operand);
  return made;
}

inline std::string computation(const std::string& name, int64_t id, int64_t root,
                               const std::vector<Instruction>& instructions) {
  std::string bytes = bytes_field(1, name);
  for (const auto& one : instructions) bytes += bytes_field(2, one.SerializeAsString());
  return bytes + number_field(5, static_cast<uint64_t>(id)) + number_field(6, static_cast<uint64_t>(root));
}

inline std::string module_of(const std::vector<std::string>& computations, const std::string& name = "tested") {
  std::string bytes = bytes_field(1, name) + bytes_field(2, "entry");
  for (const auto& one : computations) bytes += bytes_field(3, one);
  return bytes;
}

/// A module that has the opcodes of all configurable kinds and a called computation: nodes 0 … 2 and 3 … 8.
inline std::string small_module(const std::string& name = "small") {
  Instruction fusion = instruction(17, "reduce", {16, 15});
  fusion.add_called_computation_ids(100);
  return module_of({computation("sum", 100, 12,
                                {instruction(10, "parameter", {}, {}), instruction(11, "parameter", {}, {}),
                                 instruction(12, "add", {10, 11}, {})}),
                    computation("main", 200, 18,
                                {instruction(13, "parameter"), instruction(14, "convolution", {13, 13}),
                                 instruction(15, "dot", {13, 14}), instruction(16, "reshape", {15}), fusion,
                                 instruction(18, "add", {17, 13})})},
                   name);
}

using Layouts = std::vector<std::vector<std::vector<int32_t>>>;  // of nodes, tensors, dimensions

inline hlo::ConfigProfile layout_run(const Layouts& nodes, int64_t nanoseconds, bool is_default = false) {
  hlo::ConfigProfile run;
  auto* config = run.mutable_module_config()->mutable_layout_config();
  for (const auto& node : nodes) {
    auto* tensors = config->add_nodes();
    for (const auto& tensor : node) {
      auto* dimensions = tensors->add_tensors();
      for (const int32_t dimension : tensor) dimensions->add_dims(dimension);
    }
  }
  run.mutable_profile()->set_compute_time_ns(nanoseconds);
  run.set_is_default(is_default);
  return run;
}

inline hlo::ConfigProfile tile_run(const std::vector<int64_t>& output, int64_t nanoseconds, bool is_default = false) {
  hlo::ConfigProfile run;
  auto* tile = run.mutable_op_config()->mutable_tile_size_config();
  for (const int64_t bound : output) tile->add_output_bounds(bound);
  run.mutable_profile()->set_compute_time_ns(nanoseconds);
  run.set_is_default(is_default);
  return run;
}

inline std::string module_tuning(const std::string& module, const std::vector<hlo::ConfigProfile>& runs,
                                 const std::vector<int64_t>& nodes = {}, uint64_t fingerprint = 7) {
  std::string bytes = bytes_field(1, module) + number_field(2, fingerprint), packed;
  for (const auto& run : runs) bytes += bytes_field(3, run.SerializeAsString());
  for (const int64_t node : nodes) packed += varint(static_cast<uint64_t>(node));
  return packed.empty() ? bytes : bytes + bytes_field(4, packed);
}

inline std::string tuning(const std::vector<std::string>& modules) {
  std::string bytes;
  for (const auto& one : modules) bytes += bytes_field(1, one);
  return bytes;
}

/// Reads a HloModuleProto; `rows` takes the features, where it is given.
inline HloGraph read_graph(const std::string& module, std::vector<float>* rows = nullptr,
                           const HloLimits& limits = {}) {
  const HloSource source{module, "test.pb"};
  const std::string_view piece = module;
  const FeatureSink sink = [&](std::span<const float> more, int64_t) {
    rows->insert(rows->end(), more.begin(), more.end());
  };
  return read_module_graph(source, {&piece, 1}, limits, rows == nullptr ? FeatureSink() : sink);
}

inline std::filesystem::path write_file(const foretime::testing::Scratch& folder, const std::string& bytes,
                                        const std::string& name = "test.pb") {
  return folder.write(name, bytes);
}

}  // namespace foretime::testing
