#include "data/frontends/tir/tir_pack.h"

#include "data/files/packed.h"
#include "data/frontends/tir/tir_file.h"

namespace foretime::data {

int64_t pack_tir(const std::filesystem::path& out, const std::vector<std::filesystem::path>& files,
                 const std::string& member, const TirLimits& limits) {
  PackedWriter writer(out);
  int64_t groups = 0;
  for (const auto& file : files) {
    for (const Group& group : read_tir_groups(file, member, limits)) {
      writer.add(group);
      ++groups;
    }
  }
  writer.finish();
  return groups;
}

}  // namespace foretime::data
