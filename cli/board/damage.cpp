#include "cli/board/damage.h"

#include <string>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace foretime::cli {

void read_marked(nlohmann::json& json, const std::filesystem::path& root, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    std::string message = error.what();
    const auto prefix = (root / "").string();
    if (message.starts_with(prefix)) message.erase(0, prefix.size());
    json["damaged"].push_back(printable_utf8(message));
  }
}

}  // namespace foretime::cli
