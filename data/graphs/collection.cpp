#include "data/graphs/collection.h"

#include <array>
#include <vector>

namespace foretime::data {
namespace {

constexpr std::array<std::string_view, kCollections> kCollectionNames = {
    "", "layout:xla:random", "layout:xla:default", "layout:nlp:random", "layout:nlp:default", "tile:xla"};

}  // namespace

std::string to_string(Collection collection) { return std::string(kCollectionNames[static_cast<size_t>(collection)]); }

Collection collection_named(std::string_view name) {
  for (size_t i = 1; i < kCollectionNames.size(); ++i) {
    if (kCollectionNames[i] == name) return static_cast<Collection>(i);
  }
  return Collection::none;
}

std::string collection_in(const std::filesystem::path& path) {
  std::vector<std::string> parts;
  for (const auto& part : path) parts.push_back(part.string());
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (parts[i] == "tile") return "tile:" + parts[i + 1];
    if (parts[i] == "layout" && i + 3 < parts.size()) return "layout:" + parts[i + 1] + ":" + parts[i + 2];
  }
  return "";
}

std::string qualified_name(Collection collection, std::string_view name) {
  if (collection == Collection::none) return std::string(name);
  return to_string(collection) + ":" + plain_name(name);
}

std::string plain_name(std::string_view name) {
  for (size_t i = 1; i < kCollectionNames.size(); ++i) {
    const auto prefix = kCollectionNames[i];
    if (name.starts_with(prefix) && name.size() > prefix.size() && name[prefix.size()] == ':')
      return std::string(name.substr(prefix.size() + 1));
  }
  return std::string(name);
}

}  // namespace foretime::data
