#include "data/pack.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "data/packed_output.h"

namespace foretime::data {

double packing_cost(const GroupHeader& header) {
  const auto of = [](int64_t count, int64_t width) { return static_cast<double>(count) * static_cast<double>(width); };
  double bytes = of(header.nodes, 4 * header.feature_count) + of(header.edges, 16) + of(header.candidates, 16);
  if (header.kind == CandidateKind::layout) bytes += of(header.candidates, 4 * kLayoutFeatures * header.configurable);
  if (header.kind == CandidateKind::tile) bytes += of(header.candidates, 4 * kTileFeatures);
  return bytes;
}

uint64_t packing_memory(const GroupHeader& header) {
  constexpr double kBuffers = 8 << 20;
  constexpr double kTable = 4096;  // of a configurable node: tens of rows, as floats and as bytes
  if (header.kind != CandidateKind::layout) return static_cast<uint64_t>(kBuffers + 2 * packing_cost(header));
  return static_cast<uint64_t>(kBuffers + 64.0 * static_cast<double>(header.nodes + header.edges) +
                               32.0 * static_cast<double>(header.candidates) +
                               kTable * static_cast<double>(header.configurable));
}

std::vector<std::vector<int64_t>> deal_groups(const std::vector<GroupHeader>& headers, int64_t workers) {
  std::vector<int64_t> order(headers.size());
  std::iota(order.begin(), order.end(), 0);
  const auto cost = [&](int64_t i) { return packing_cost(headers[static_cast<size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return cost(a) > cost(b); });
  std::vector<std::vector<int64_t>> lists(static_cast<size_t>(workers));
  std::vector<double> load(lists.size());
  for (const int64_t group : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += cost(group);
    lists[static_cast<size_t>(least - load.begin())].push_back(group);
  }
  for (auto& list : lists) std::sort(list.begin(), list.end());
  return lists;
}

MemoryBudget::Share::Share(MemoryBudget& budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {
  std::unique_lock lock(budget_.mutex_);
  budget_.freed_.wait(lock, [&] { return budget_.used_ == 0 || budget_.used_ + bytes_ <= budget_.limit_; });
  budget_.used_ += bytes_;
}

MemoryBudget::Share::~Share() {
  {
    const std::lock_guard lock(budget_.mutex_);
    budget_.used_ -= bytes_;
  }
  budget_.freed_.notify_all();
}

void pack_groups(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                 std::span<const int64_t> groups, MemoryBudget& memory, const ExtrasMaker& extras) {
  PackedWriter writer(file, extras);
  for (const int64_t group : groups) {
    const auto& header = headers[static_cast<size_t>(group)];
    const MemoryBudget::Share share(memory, packing_memory(header));
    writer.add_file(header);
  }
  writer.finish();
}

void join_parts(const std::filesystem::path& file, const std::vector<std::filesystem::path>& parts,
                const std::vector<std::vector<int64_t>>& lists) {
  struct Place {
    int64_t group;
    size_t part;
    uint64_t member;
  };
  std::vector<Place> places;
  std::vector<std::unique_ptr<packed::Collection>> open(parts.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    if (!lists[part].empty()) open[part] = std::make_unique<packed::Collection>(parts[part]);
    for (size_t member = 0; member < lists[part].size(); ++member)
      places.push_back({lists[part][member], part, member});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.group < b.group; });
  packed::Output out(file);
  for (const Place& place : places) out.copy_group(*open[place.part], place.member);
  out.commit();
}

}  // namespace foretime::data
