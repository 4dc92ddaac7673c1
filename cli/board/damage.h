#pragma once

#include <filesystem>
#include <functional>

#include <nlohmann/json_fwd.hpp>

namespace foretime::cli {

/// Calls `read`, which adds one part to an answer. If it throws an Error, appends the message to json["damaged"],
/// without the path of `root`, so that a damaged file never hides the parts next to it.
void read_marked(nlohmann::json& json, const std::filesystem::path& root, const std::function<void()>& read);

}  // namespace foretime::cli
