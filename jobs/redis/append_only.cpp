#include "jobs/redis/append_only.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>

#include "base/numbers.h"

namespace foretime::jobs {
namespace {

/// Returns whether the increments, which are sorted, do not follow each other.
bool has_gap(const AppendOnlyManifest& increments) {
  const auto follows = [](const auto& a, const auto& b) { return b.sequence != a.sequence + 1; };
  return std::ranges::adjacent_find(increments, follows) != increments.end();
}

}  // namespace

std::optional<ManifestLine> parse_manifest_line(std::string_view line) {
  std::array<std::string_view, 6> words;
  size_t count = 0;
  for (size_t at = line.find_first_not_of(' '); at != std::string_view::npos; at = line.find_first_not_of(' ', at)) {
    if (count == words.size()) return std::nullopt;
    const size_t end = std::min(line.find(' ', at), line.size());
    words[count++] = line.substr(at, end - at);
    at = end;
  }
  const auto [file, name, seq, number, type, kind] = words;
  if (count != words.size() || file != "file" || seq != "seq" || type != "type" || kind.size() != 1 ||
      name.find('/') != std::string_view::npos)
    return std::nullopt;
  const ManifestLine found{.name = name, .sequence = parse_number<int64_t>(number).value_or(0), .type = kind.front()};
  if (found.sequence < 1) return std::nullopt;
  if (found.type != 'b' && found.type != 'i' && found.type != 'h') return std::nullopt;
  return found;
}

std::optional<AppendOnlyManifest> parse_manifest(std::string_view text) {
  AppendOnlyManifest manifest;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const auto found = parse_manifest_line(line);
    if (!found) return std::nullopt;
    manifest.push_back({std::string(found->name), found->sequence, found->type});
  }
  return manifest;
}

std::optional<AppendOnlyManifest> manifest_of_files(const std::vector<std::string>& names) {
  AppendOnlyManifest bases, all;
  for (const auto& name : names) {
    // appendonly.aof.SEQUENCE.base.rdb, ….base.aof or ….incr.aof
    constexpr std::string_view kStart = "appendonly.aof.";
    if (!name.starts_with(kStart)) return std::nullopt;
    auto rest = std::string_view(name).substr(kStart.size());
    AppendOnlyFile file{.name = name, .sequence = take_number<int64_t>(rest).value_or(0)};
    if (file.sequence < 1) return std::nullopt;
    file.type = rest == ".incr.aof" ? 'i' : rest == ".base.rdb" || rest == ".base.aof" ? 'b' : 'h';
    if (file.type == 'h') return std::nullopt;
    (file.type == 'b' ? bases : all).push_back(file);
  }
  std::ranges::sort(bases, {}, &AppendOnlyFile::sequence);
  std::ranges::sort(all, {}, &AppendOnlyFile::sequence);
  if (has_gap(all) || (bases.empty() && !all.empty() && all.front().sequence != 1)) return std::nullopt;
  if (!bases.empty()) all.insert(all.begin(), bases.front());
  return all;
}

std::string manifest_text(const AppendOnlyManifest& manifest) {
  std::string text;
  for (const auto& file : manifest)
    text += fmt::format("file {} seq {} type {}\n", file.name, file.sequence, file.type);
  return text;
}

std::optional<AppendOnlyManifest> repaired_manifest(const AppendOnlyManifest& manifest,
                                                    const std::function<bool(const std::string& name)>& exists) {
  const auto of_type = [&](char type) {
    AppendOnlyManifest found;
    for (const auto& file : manifest)
      if (file.type == type) found.push_back(file);
    return found;
  };
  const auto bases = of_type('b'), increments = of_type('i');
  if (bases.empty() || exists(bases.front().name)) {
    if (increments.size() < 2 || exists(increments.back().name)) return std::nullopt;
    auto left = manifest;
    std::erase(left, increments.back());
    return left;
  }
  AppendOnlyManifest again, parts;
  const auto replaced = of_type('h');
  if (replaced.empty()) return std::nullopt;
  for (auto file : replaced) {
    if (!exists(file.name)) return std::nullopt;
    file.type = file.name.find(".base.") != std::string::npos ? 'b' : 'i';
    (file.type == 'b' ? again : parts).push_back(file);
  }
  std::ranges::sort(parts, {}, &AppendOnlyFile::sequence);
  parts.insert(parts.end(), increments.begin(), increments.end());
  // All of what was replaced, or some of it would be forgotten without a word.
  const bool from_the_start = again.size() == 1 || (again.empty() && !parts.empty() && parts.front().sequence == 1);
  if (!from_the_start || has_gap(parts)) return std::nullopt;
  again.insert(again.end(), parts.begin(), parts.end());
  return again;
}

}  // namespace foretime::jobs
