#pragma once

#include <cstdint>
#include <string_view>

namespace foretime::data {

/// TpuGraphs' number of an HLO opcode, as `node_opcode` holds it: XLA's names in the order in which the data set's
/// authors met them (tpu_graphs/process_data/xla/hlo_opcode.h), 1 … 120. 0 stands for all opcodes that came later.
uint8_t hlo_opcode_number(std::string_view name);

/// The name of a number; empty for 0 and for numbers that nobody has.
std::string_view hlo_opcode_name(uint8_t number);

/// Whether TpuGraphs' layout collections give instructions of this opcode a layout: convolution, dot and reshape.
bool has_layout_choice(uint8_t number);

}  // namespace foretime::data
