#include "data/dataset/pack.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <unistd.h>

#include "base/files.h"
#include "base/partial_files.h"
#include "base/threads.h"
#include "data/dataset/group_files.h"
#include "data/files/packed_file.h"

namespace foretime::data {

double packing_cost(const GroupHeader& header) {
  const auto of = [](int64_t count, int64_t width) { return static_cast<double>(count) * width; };
  double bytes = of(header.nodes, 4 * header.feature_count) + of(header.edges, 16) + of(header.candidates, 16);
  if (header.kind == CandidateKind::layout) bytes += of(header.candidates, 4 * kLayoutFeatures * header.configurable);
  if (header.kind == CandidateKind::tile) bytes += of(header.candidates, 4 * kTileFeatures);
  return bytes;
}

uint64_t packing_memory(const GroupHeader& header) {
  constexpr double kBuffers = 8 << 20;
  constexpr double kTable = 4096;  // configurable node: tens of rows, as floats and as bytes
  if (header.kind != CandidateKind::layout) return kBuffers + 2 * packing_cost(header);
  return (kBuffers + 64.0 * (header.nodes + header.edges) + 32.0 * header.candidates + kTable * header.configurable);
}

std::vector<std::vector<int64_t>> distribute_groups(const std::vector<GroupHeader>& headers, int64_t workers) {
  std::vector<int64_t> order(headers.size());
  std::iota(order.begin(), order.end(), 0);
  const auto cost = [&](int64_t i) { return packing_cost(headers[i]); };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return cost(a) > cost(b); });
  std::vector<std::vector<int64_t>> lists(workers);
  std::vector<double> load(lists.size());
  for (const int64_t group : order) {
    const auto least = std::ranges::min_element(load);
    *least += cost(group);
    lists[least - load.begin()].push_back(group);
  }
  for (auto& list : lists) std::ranges::sort(list);
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

void add_file(PackedWriter& writer, const GroupHeader& header) {
  if (header.member >= 0 || header.kind != CandidateKind::layout)
    return writer.add(load_group(header), header.fingerprint);
  const auto read = [&](const LayoutSink& sink) { return load_group(header, sink); };
  writer.add_streamed(header.name, read, header.fingerprint);
}

void pack_groups(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                 std::span<const int64_t> groups, MemoryBudget& memory) {
  PackedWriter writer(file);
  for (const int64_t group : groups) {
    const auto& header = headers[group];
    const MemoryBudget::Share share(memory, packing_memory(header));
    add_file(writer, header);
  }
  writer.finish();
}

void join_parts(const std::filesystem::path& file, const std::vector<std::filesystem::path>& parts,
                const std::vector<std::vector<int64_t>>& lists, const std::vector<std::string>& names) {
  struct Place {
    int64_t group;
    size_t part;
    uint64_t member;
  };
  std::vector<Place> places;
  std::vector<std::unique_ptr<packed::CollectionFile>> open(parts.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    if (lists[part].empty()) continue;
    open[part] = std::make_unique<packed::CollectionFile>(parts[part]);
    const uint64_t members = open[part]->preamble().group_count;
    const bool all = members == lists[part].size();
    size_t next = 0;
    std::string name;
    for (uint64_t member = 0; member < members; ++member, ++next) {
      if (!all) {
        open[part]->record(member, name);
        while (next < lists[part].size() && names[lists[part][next]] != name) ++next;
      }
      if (next >= lists[part].size())
        throw DataError("{}: found group {}, expected only the groups that this part was packed for",
                        parts[part].string(), name);
      places.push_back({lists[part][next], part, member});
    }
  }
  std::ranges::sort(places, [](const Place& a, const Place& b) { return a.group < b.group; });
  packed::Output out(file);
  for (const Place& place : places) out.copy_group(*open[place.part], place.member);
  out.commit();
}

int64_t pack_workers(size_t groups, int64_t processes, const PackOptions& options) {
  return std::min(std::max<int64_t>(1, groups), processes * std::max<int64_t>(1, options.threads));
}

PackParts::PackParts(std::filesystem::path file, const std::vector<GroupHeader>& headers, int64_t workers,
                     const std::string& token, int64_t process, int64_t processes)
    : file_(std::move(file)),
      lists_(distribute_groups(headers, workers)),
      process_(process),
      processes_(processes),
      lifetime_lock_(file_.string() + fmt::format(".{}.process{}", token, process), AtomicFile::Leftovers::remove) {
  if (process == 0) remove_dead_partial_files(file_, lifetime_lock_.descriptor());
  for (const GroupHeader& header : headers) names_.push_back(header.name);
  for (size_t worker = 0; worker < lists_.size(); ++worker) {
    parts_.push_back(file_);
    parts_.back() += fmt::format(".{}.part{}{}", token, worker, kAsideSuffix);
  }
}

PackParts::~PackParts() {
  std::error_code ignored;
  for (size_t worker = process_; worker < parts_.size(); worker += processes_)
    std::filesystem::remove(parts_[worker], ignored);
}

void PackParts::pack(const PartPacker& pack_part) const {
  std::vector<size_t> own;
  for (size_t worker = process_; worker < lists_.size(); worker += processes_)
    if (!lists_[worker].empty()) own.push_back(worker);
  parallel_for(own.size(), own.size(), [&] {
    return [&](int64_t i) {
      const size_t worker = own[i];
      pack_part(parts_[worker], lists_[worker]);
    };
  });
}

void PackParts::pack(const std::vector<GroupHeader>& headers, const PackOptions& options) const {
  MemoryBudget memory(options.memory);
  pack([&](const std::filesystem::path& part, std::span<const int64_t> groups) {
    pack_groups(part, headers, groups, memory);
  });
}

void PackParts::join() const { join_parts(file_, parts_, lists_, names_); }

void pack_collection(const std::filesystem::path& file, const std::vector<GroupHeader>& headers,
                     const PackOptions& options) {
  const int64_t workers = pack_workers(headers.size(), 1, options);
  if (workers == 1) {
    MemoryBudget memory(options.memory);
    pack_groups(file, headers, distribute_groups(headers, 1).front(), memory);
    return;
  }
  const PackParts parts(file, headers, workers, std::to_string(::getpid()));
  parts.pack(headers, options);
  parts.join();
}

}  // namespace foretime::data
