#include "inference/bundle/pretrained.h"

#include <cstdlib>
#include <map>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"

namespace foretime::inference {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "pretrained";
constexpr const char* kEnding = ".foretime";
constexpr int kPrefixAbove = 4;  // folders: of lib/python3/dist-packages/foretime, of libexec/foretime
constexpr int kSourceAbove = 5;  // levels from build/release/inference/capi up to the source tree

/// The file that this code was loaded from: a program, or libforetime.
fs::path own_file() {
  Dl_info info{};
  std::error_code failure;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
  if (dladdr(reinterpret_cast<const void*>(&pretrained_folders), &info) != 0 && info.dli_fname != nullptr) {
    auto file = fs::canonical(info.dli_fname, failure);
    if (!failure) return file;
  }
  auto file = fs::read_symlink("/proc/self/exe", failure);  // programs may be named as they were called
  return failure ? fs::path() : file;
}

void add_folder(std::vector<fs::path>& folders, const fs::path& folder) {
  std::error_code failure;
  if (fs::is_directory(folder, failure)) folders.push_back(folder);
}

}  // namespace

std::vector<fs::path> pretrained_folders() {
  std::vector<fs::path> folders;
  if (const char* named = std::getenv("FORETIME_PRETRAINED"); named != nullptr && *named != '\0') {
    std::string_view rest = named;
    while (!rest.empty()) {
      const auto colon = rest.find(':');
      if (colon != 0) folders.emplace_back(rest.substr(0, colon));
      rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    }
    return folders;
  }
  auto folder = own_file().parent_path();
  add_folder(folders, folder / kFolder);
  for (int above = 0; above < kSourceAbove && folder.has_relative_path(); ++above, folder = folder.parent_path()) {
    const auto prefix = folder.parent_path();
    if (above < kPrefixAbove) add_folder(folders, prefix / "share" / "foretime" / kFolder);
    std::error_code failure;
    if (fs::exists(prefix / "CMakePresets.json", failure)) add_folder(folders, prefix / kFolder);
  }
  return folders;
}

std::vector<PretrainedBundle> pretrained_bundles() {
  std::map<std::string, fs::path> found;
  for (const auto& folder : pretrained_folders()) {
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
      if (entry->path().extension() == kEnding) found.emplace(entry->path().stem().string(), entry->path());
  }
  std::vector<PretrainedBundle> bundles;
  for (const auto& [name, file] : found) bundles.push_back({name, file});
  return bundles;
}

fs::path bundle_file(const fs::path& name) {
  const auto text = name.string();
  std::error_code failure;
  if (text.find_first_of("/.") != std::string::npos || text.empty() || fs::exists(name, failure)) return name;
  std::vector<std::string> names;
  for (const auto& bundle : pretrained_bundles()) {
    if (bundle.name == text) return bundle.file;
    names.push_back(bundle.name);
  }
  if (names.empty())
    throw FileError(
        "{}: no such file, and no pretrained models are installed (FORETIME_PRETRAINED names a folder of them)", text);
  const auto near = nearest_name(text, names);
  throw FileError(
      "{}: no such file or folder, and no pretrained model: {}", text,
      near.empty() ? fmt::format("expected one of {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near));
}

}  // namespace foretime::inference
