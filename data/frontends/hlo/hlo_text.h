#pragma once

#include <string>
#include <string_view>

namespace foretime::data {

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
