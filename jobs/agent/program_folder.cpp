#include "jobs/agent/program_folder.h"

#include <system_error>

namespace foretime::jobs {

std::filesystem::path compat_folder(const std::filesystem::path& program) {
  constexpr int kFoldersAbove = 4;  // build/release/cli is three below the source tree
  auto folder = program.parent_path();
  for (int above = 0; above < kFoldersAbove; ++above, folder = folder.parent_path()) {
    for (const auto* package : {"share/foretime/python", "lib/python3/dist-packages", "python"}) {
      std::error_code failure;
      auto compat = folder / package / "foretime" / "compat";
      if (std::filesystem::is_directory(compat, failure)) return compat;
    }
  }
  return {};
}

bool ProgramFolder::note_missing(const std::string& key, const std::filesystem::path& program) {
  return missing_.insert_or_assign(key, program).second;
}

std::vector<std::string> ProgramFolder::missing(double now) {
  if (!missing_.empty() && now >= next_check_) {
    next_check_ = now + kCheckInterval;
    std::erase_if(missing_, [](const auto& entry) {
      std::error_code failure;
      return std::filesystem::is_regular_file(entry.second, failure);
    });
  }
  std::vector<std::string> keys;
  for (const auto& [key, program] : missing_) keys.push_back(key);
  return keys;
}

}  // namespace foretime::jobs
