#include "base/glob.h"

#include <set>

#include <fnmatch.h>

#include "base/error.h"
#include "base/files.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;

/// Walks down `below`, one component of the pattern at a time.
void walk(const fs::path& below, const std::vector<std::string>& parts, size_t at, std::set<fs::path>& found) {
  if (at == parts.size()) {
    if (files().exists(below)) found.insert(below);
    return;
  }
  const std::string& part = parts[at];
  if (part.find_first_of("*?") == std::string::npos) {
    walk(below / part, parts, at + 1, found);
    return;
  }
  const fs::path folder = below.empty() ? fs::path(".") : below;
  if (!files().is_folder(folder)) return;
  if (part == "**") walk(below, parts, at + 1, found);
  std::error_code code, unknown;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.front() == '.' && part.front() != '.') continue;
    if (part == "**") {
      if (entry->is_directory(unknown) && !entry->is_symlink(unknown)) walk(below / name, parts, at, found);
    } else if (matches(part, name)) {
      walk(below / name, parts, at + 1, found);
    }
  }
  if (code && is_storage_failure(code.value())) throw_file_error(folder, "cannot be listed", code.value());
  if (code) throw DataError("{}: cannot be listed ({})", folder.string(), code.message());
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern, size_t limit) {
  const size_t open = pattern.find('{');
  if (open == std::string::npos) {
    if (pattern.find('}') != std::string::npos) throw DataError("{}: '}}' without '{{'", pattern);
    return {pattern};
  }
  std::vector<std::string> choices(1);
  size_t depth = 0, at = open;
  for (; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c == '{' && depth++ == 0) continue;
    if (c == '}' && --depth == 0) break;
    if (c == ',' && depth == 1) choices.emplace_back();
    else choices.back().push_back(c);
  }
  if (at == pattern.size()) throw DataError("{}: '{{' without '}}'", pattern);
  std::vector<std::string> expanded;
  for (const auto& choice : choices) {
    for (auto& one : expand_braces(pattern.substr(0, open) + choice + pattern.substr(at + 1), limit - expanded.size()))
      expanded.push_back(std::move(one));
    if (expanded.size() > limit) throw DataError("{}: found braces for more than {} names", pattern, limit);
  }
  return expanded;
}

bool matches(std::string_view pattern, std::string_view name) {
  std::string escaped;  // escapes "[", which starts character classes in fnmatch
  for (const char c : pattern) escaped += c == '[' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return ::fnmatch(escaped.c_str(), std::string(name).c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  for (const auto& pattern : patterns)
    for (const auto& each : expand_braces(pattern))
      if (matches(each, name)) return true;
  return false;
}

std::vector<fs::path> glob(const std::string& pattern, const fs::path& root) {
  std::set<fs::path> found;
  for (const auto& plain : expand_braces(pattern)) {
    const fs::path path(plain);
    std::vector<std::string> parts;
    for (const auto& part : path.relative_path())
      if (!part.empty()) parts.push_back(part.string());
    walk(path.is_absolute() ? path.root_path() : root, parts, 0, found);
  }
  return {found.begin(), found.end()};
}

std::vector<fs::path> paths_named(const std::string& name, const fs::path& root) {
  auto literal = root == "." ? fs::path(name) : root / name;
  if (files().exists(literal)) return {std::move(literal)};
  return glob(name, root);
}

}  // namespace foretime
