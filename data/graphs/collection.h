#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace foretime::data {

/// The collections of TpuGraphs: by where the graphs come from, and by how configurations were searched for.
enum class Collection : uint8_t {
  none = 0,  // anything else
  layout_xla_random = 1,
  layout_xla_default = 2,
  layout_nlp_random = 3,
  layout_nlp_default = 4,
  tile_xla = 5,
};
constexpr int64_t kCollections = 6;

/// "layout:xla:random", as the contest writes it; empty for none.
std::string to_string(Collection collection);
/// The collection of that name; none for any other name.
Collection collection_named(std::string_view name);
/// The name that a path of TpuGraphs' folders spells, …/layout/xla/random/… or …/tile/xla/…; empty for another path.
std::string collection_in(const std::filesystem::path& path);

/// "layout:xla:random:name": tells apart graphs of one name in several collections. The plain name for none.
std::string qualified_name(Collection collection, std::string_view name);
/// `name` without its collection.
std::string plain_name(std::string_view name);

}  // namespace foretime::data
