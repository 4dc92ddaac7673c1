#include "sharding/confinement.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::sharding {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path, const char* what) {
  std::error_code failure;
  auto real = fs::canonical(path, failure);
  if (failure) throw DataError(fmt::format("{}: {}{}", path.string(), what, failure.message()));
  return real;
}

/// By components: /data2 is not inside /data.
bool lies_in(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

}  // namespace

data::FileCheck confinement(const configs::DataSettings& settings) {
  if (settings.allowed_roots.empty()) return {};
  std::vector<fs::path> folders;
  for (const auto& folder : settings.allowed_roots)
    folders.push_back(resolved(folder, "folder of data.allowed_roots: "));
  return [folders = std::move(folders), named = settings.allowed_roots](const fs::path& file) {
    const auto real = resolved(file, "");
    if (std::any_of(folders.begin(), folders.end(), [&](const auto& folder) { return lies_in(real, folder); })) return;
    throw DataError(fmt::format(
        "{}: lies outside of the folders that may be read, expected a file in {} "
        "(data.allowed_roots; an agent's --data-root)",
        file == real ? file.string() : file.string() + " (really " + real.string() + ")", fmt::join(named, ", ")));
  };
}

}  // namespace foretime::sharding
