#pragma once

#include <optional>
#include <string>

#include <yaml-cpp/yaml.h>

namespace foretime::configs {

/// The document of a YAML text, a null node where it holds none; nothing where it holds several. Throws YAML::Exception
/// for text that is no YAML. In some damaged texts yaml-cpp finds documents without end (YAML::LoadAll does not
/// return): here two are enough.
std::optional<YAML::Node> only_document(const std::string& yaml);

}  // namespace foretime::configs
