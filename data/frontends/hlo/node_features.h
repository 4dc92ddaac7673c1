#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foretime::hlo {
class HloInstructionProto;
}

namespace foretime::data {

/// TpuGraphs' number of an HLO opcode, as `node_opcode` holds it: XLA's names in the order in which the data set's
/// authors met them (tpu_graphs/process_data/xla/hlo_opcode.h), 1 … 120. 0 stands for all opcodes that came later.
uint8_t hlo_opcode_number(std::string_view name);

/// The name of a number; empty for 0 and for numbers that nobody has.
std::string_view hlo_opcode_name(uint8_t number);

/// Whether TpuGraphs' layout collections give instructions of this opcode a layout: convolution, dot and reshape.
bool has_layout_choice(uint8_t number);

/// Writes TpuGraphs' 140 node features (data/group.h; feature_names in data/schema.h has their names and order) of one
/// instruction to `row`, as the data set's own extractor does (tpu_graphs/process_data/xla/featurizers.h):
/// - lists are cut or filled with 0 to the number of their columns; sums and products run over all of their values, and
///   an empty list has sum 0 and product 1;
/// - what an instruction does not have is 0, element_size_in_bits always;
/// - 64-bit integers are rounded to floats last.
/// Returns what is wrong with the instruction, empty where nothing is: a shape with a negative size, or a sum or
/// product that does not fit 64 bits. The data set's extractor lets those wrap around.
[[nodiscard]] std::string node_features(const hlo::HloInstructionProto& instruction, bool is_root, float* row);

}  // namespace foretime::data
