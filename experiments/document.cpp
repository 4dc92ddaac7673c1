#include "experiments/document.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"
#include "configs/yaml_reader.h"
#include "experiments/document_part.h"
#include "jobs/error.h"

namespace foretime::experiments {
namespace {

namespace fs = std::filesystem;
using configs::YamlEntry;

constexpr const char* kFolder = "configs/experiments";
constexpr size_t kText = 2000, kLabel = 60, kMostParts = 64;
/// Lists the keys that belong to the file if it has parts; parts may have their own.
constexpr const char* kTitles[] = {"title", "description"};

bool is_title(const std::string& key) { return key == kTitles[0] || key == kTitles[1]; }

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// The items of a map of maps, by their own names.
std::vector<std::pair<std::string, YamlEntry>> named_items(const YamlEntry& map, const std::string& origin,
                                                           const std::string& key) {
  std::vector<std::pair<std::string, YamlEntry>> items;
  for (const YamlEntry& item : items_of(map, origin, key + ".", {}))
    items.emplace_back(item.key.substr(key.size() + 1), item);
  return items;
}

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "is none" : fmt::format("{} {}", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
}

class FileReader {
 public:
  FileReader(const std::string& origin, const fs::path& folder, const ExperimentChoice& choice)
      : folder_(folder), choice_(choice) {
    file_.origin = origin;
    file_.name = fs::path(origin).stem().string();
    file_.variant = choice.variant;
  }

  ExperimentFile read(const std::string& yaml) {
    const YamlEntry root{"", configs::parse_yaml(yaml, file_.origin), file_.origin};
    PartKeys whole;
    for (const YamlEntry& item : items_of(root, file_.origin, "", with(part_keys(), {"name", "parts", "variants"}))) {
      if (item.key == "name") file_.name = configs::text_in(item, kLabel);
      else if (item.key == "parts" || item.key == "variants") own_.emplace(item.key, item);
      else add(item, whole);
    }
    read_parts();
    read_variants();
    read_titles(whole);
    if (parts_.empty()) file_.parts.push_back(read_one(whole, ""));
    for (const auto& [name, items] : parts_) {
      auto keys = whole;
      for (const char* own : kTitles) keys.keys.erase(own);
      for (const YamlEntry& item : items) add(item, keys);
      if (is_chosen(name)) file_.parts.push_back(read_one(std::move(keys), name));
    }
    choose_entries();
    return std::move(file_);
  }

 private:
  static void add(const YamlEntry& item, PartKeys& keys) {
    if (item.key == "overrides") keys.overrides.push_back(item);
    else replace(item, keys);
  }

  /// Assigning a YAML::Node would change the node that other parts share.
  static void replace(const YamlEntry& item, PartKeys& keys) {
    keys.keys.erase(item.key);
    keys.keys.emplace(item.key, item);
  }

  void lay_over(const std::vector<YamlEntry>& items, PartKeys& keys) const {
    for (const YamlEntry& item : items) {
      if (item.key == "overrides") {
        const auto more = jobs::flatten_overrides(item, file_.origin);
        keys.last.insert(keys.last.end(), more.begin(), more.end());
      } else if (item.key != "extends" && item.key != "parts") {
        replace(item, keys);
      }
    }
  }

  void read_titles(PartKeys keys) {
    for (const auto& variant : variants_) lay_over(variant, keys);
    const auto text = [&](const char* key, const std::string& fallback) {
      const auto found = keys.keys.find(key);
      return found == keys.keys.end() ? fallback : configs::text_in(found->second, kText);
    };
    file_.title = text(kTitles[0], file_.name);
    file_.description = text(kTitles[1], "");
  }

  void read_parts() {
    const auto parts = own_.find("parts");
    if (parts == own_.end()) {
      if (!choice_.parts.empty()) configs::fail({"parts", {}, file_.origin}, "found no parts to choose from");
      return;
    }
    file_.has_parts = true;
    for (const auto& [name, item] : named_items(parts->second, file_.origin, "parts")) {
      if (name.empty() || name.size() > kLabel || !has_only_letters_digits_and("-_", name))
        fail(item, "expected a part's name of letters, digits, - and _: it is a folder");
      parts_.emplace_back(name, items_of(item, file_.origin, "", part_keys()));
    }
    if (parts_.empty() || parts_.size() > kMostParts)
      fail(parts->second, fmt::format("found {} parts, expected 1 to {}", parts_.size(), kMostParts));
    for (const auto& wanted : choice_.parts)
      if (!part_names_contain(wanted))
        fail(parts->second, fmt::format("found no {}, there {}", wanted, listed(part_names())));
  }

  std::vector<std::string> part_names() const {
    std::vector<std::string> names;
    for (const auto& [name, items] : parts_) names.push_back(name);
    return names;
  }
  bool part_names_contain(const std::string& name) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) { return part.first == name; });
  }
  bool is_chosen(const std::string& name) const {
    return choice_.parts.empty() || std::find(choice_.parts.begin(), choice_.parts.end(), name) != choice_.parts.end();
  }

  /// The chosen variant and what it extends, the deepest first.
  void read_variants() {
    std::map<std::string, YamlEntry> known;
    std::vector<std::string> names;
    if (const auto variants = own_.find("variants"); variants != own_.end()) {
      for (const auto& [name, item] : named_items(variants->second, file_.origin, "variants")) {
        known.emplace(name, item);
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    std::set<std::string> chain;
    for (std::string name = choice_.variant; !name.empty();) {
      const auto found = known.find(name);
      if (found == known.end())
        configs::fail({"variants", {}, file_.origin}, fmt::format("found no {}, there {}", name, listed(names)));
      if (!chain.insert(name).second) fail(found->second, "extends itself, directly or through other variants");
      variants_.insert(variants_.begin(),
                       items_of(found->second, file_.origin, "", with(part_keys(), {"extends", "parts"})));
      name.clear();
      for (const YamlEntry& item : variants_.front()) {
        if (item.key == "extends") name = configs::text_in(item, kLabel);
        if (item.key == "parts") check_variant_parts(item);
      }
    }
  }

  void check_variant_parts(const YamlEntry& map) const {
    for (const auto& [name, item] : named_items(map, file_.origin, "parts")) {
      if (!part_names_contain(name)) fail(item, fmt::format("found no such part, there {}", listed(part_names())));
      items_of(item, file_.origin, "", part_keys());  // refuses unknown keys
    }
  }

  Experiment read_one(PartKeys keys, const std::string& part) const {
    for (const auto& variant : variants_) {
      std::vector<YamlEntry> items;
      for (const YamlEntry& item : variant)
        if (part.empty() || !is_title(item.key)) items.push_back(item);
      lay_over(items, keys);
      for (const YamlEntry& item : variant) {
        if (item.key != "parts") continue;
        for (const auto& [name, own] : named_items(item, file_.origin, "parts"))
          if (name == part) lay_over(items_of(own, file_.origin, "", part_keys()), keys);
      }
    }
    Experiment named;
    named.origin = file_.origin;
    named.name = file_.name;
    named.part = part;
    named.variant = file_.variant;
    return read_part(keys, std::move(named), folder_, choice_);
  }

  /// Keeps only the chosen entries of each part, in the order of the choice; drops parts without any.
  void choose_entries() {
    if (choice_.entries.empty()) return;
    std::vector<std::string> labels;
    std::set<std::string> found;
    for (auto& part : file_.parts) {
      for (const auto& entry : part.entries)
        if (std::find(labels.begin(), labels.end(), entry.label) == labels.end()) labels.push_back(entry.label);
      std::vector<ExperimentEntry> chosen;
      for (const auto& wanted : choice_.entries) {
        for (const auto& entry : part.entries) {
          if (entry.label != wanted && entry.slug() != wanted) continue;
          found.insert(wanted);
          chosen.push_back(entry);
        }
      }
      part.entries = std::move(chosen);
    }
    for (const auto& wanted : choice_.entries)
      if (!found.contains(wanted))
        configs::fail({"entries", {}, file_.origin},
                      fmt::format("found no entry {}, expected some of {}", wanted, fmt::join(labels, ", ")));
    std::erase_if(file_.parts, [](const auto& part) { return part.entries.empty(); });
  }

  fs::path folder_;
  const ExperimentChoice& choice_;
  ExperimentFile file_;
  std::map<std::string, YamlEntry> own_;  // parts and variants
  std::vector<std::pair<std::string, std::vector<YamlEntry>>> parts_;
  std::vector<std::vector<YamlEntry>> variants_;
};

}  // namespace

std::string ExperimentEntry::slug() const {
  std::string slug;
  for (const char c : lower_case(label)) {
    if (is_letter(c) || is_digit(c)) slug += c;
    else if (!slug.empty() && slug.back() != '-') slug += '-';
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "entry" : slug;
}

fs::path find_experiment(const std::string& name) {
  if (is_file(name)) return name;
  const auto file = fs::path(kFolder) / (name + ".yaml");
  if (is_file(file)) return file;
  std::set<std::string> known;
  for (const auto& item : files().list(kFolder))
    if (item.extension() == ".yaml") known.insert(item.stem().string());
  throw ExperimentError(
      "{}: no such experiment: expected a YAML file, or a name in {}/ of the working folder ({})", name, kFolder,
      known.empty() ? "there is none; start in the project's folder" : fmt::format("{}", fmt::join(known, ", ")));
}

ExperimentFile parse_experiments(const std::string& yaml, const std::string& origin, const fs::path& folder,
                                 const ExperimentChoice& choice) {
  return FileReader(origin, folder, choice).read(yaml);
}

ExperimentFile load_experiments(const fs::path& file, const ExperimentChoice& choice) {
  return parse_experiments(configs::read_yaml_text(file.string()), file.string(), file.parent_path(), choice);
}

std::string missing_requirement(const Experiment& experiment) {
  for (const auto& path : experiment.requirements) {
    const auto full = fs::path(experiment.base.data.root) / path;
    std::error_code failure;
    if (!fs::exists(full, failure)) return full.string();
  }
  return "";
}

}  // namespace foretime::experiments
