#pragma once

#include <string>
#include <string_view>

namespace foretime::data {

/// Returns whether a file that begins so is a module as XLA prints it: "HloModule NAME …", after comments and blanks.
bool is_hlo_text(std::string_view start);

/// Converts a module as XLA prints it (HloModule::ToString, the default of --xla_dump_to) to the bytes of an
/// HloModuleProto. The message has the fields of hlo.proto that XLA's own message has, with ids in the order of the
/// text, so that graph and features are the same. What a graph does not use (literals, sharding, metadata,
/// backend_config, and other attributes) is skipped. `name` is the prefix of messages.
///
/// Throws DataError `name: line N: …` for text that is no module: unfinished braces and quotes, operands and called
/// computations that are not defined before, computations without or with several roots, shapes that cannot be read,
/// and asynchronous operations in XLA's short form, which leaves their computation out.
std::string hlo_text_to_proto(std::string_view text, const std::string& name);

}  // namespace foretime::data
