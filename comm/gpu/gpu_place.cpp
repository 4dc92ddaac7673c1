#include "comm/gpu/gpu_place.h"

#include <sstream>

#include <fmt/format.h>

namespace foretime::comm {

std::string to_bytes(const GpuPlace& place) { return place.bus + "\n" + place.host + "\n" + place.boot; }

GpuPlace gpu_place_of(const std::string& bytes) {
  std::istringstream lines(bytes);
  GpuPlace place;
  for (auto* field : {&place.bus, &place.host, &place.boot}) std::getline(lines, *field);
  return place;
}

std::string shared_gpu(const std::vector<GpuPlace>& places) {
  for (size_t rank = 0; rank < places.size(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      const auto &a = places[other], &b = places[rank];
      const bool same_machine = a.boot.empty() || b.boot.empty() ? a.host == b.host : a.boot == b.boot;
      if (!same_machine || a.bus != b.bus) continue;
      const auto where = a.host == b.host ? a.host : a.host + ", which is also " + b.host;
      return fmt::format(
          "ranks {} and {} would share GPU {} of host {}, which NCCL refuses; start one rank for each GPU", other, rank,
          b.bus, where);
    }
  }
  return "";
}

}  // namespace foretime::comm
