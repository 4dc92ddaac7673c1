#include "data/dataset/records/record_pack.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/counter_random.h"
#include "data/files/packed.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/nest_program.h"

namespace foretime::data {
namespace {

constexpr size_t kMissingKept = 10;
constexpr int64_t kFileShift = 32;
// Of a program: about fifty nodes, and their columns twice while an array grows.
constexpr double kNodesOfProgram = 48, kEdgesOfProgram = 110;

double nodes_of_program(configs::Representation representation) {
  return representation == configs::Representation::curve ? 1.0 : kNodesOfProgram;
}
/// Node features that graphs of the index's programs have where nobody asks for less.
int64_t columns_of(const RecordIndex& index, configs::Representation representation) {
  if (index.gpu && representation == configs::Representation::loops) return LoopColumns::kWithGpu;
  return program_columns(representation);
}

int64_t place_of(size_t file, int64_t line) { return static_cast<int64_t>(file) << kFileShift | line; }
size_t file_of(int64_t place) { return place >> kFileShift; }
int64_t line_of(int64_t place) { return place & ((int64_t{1} << kFileShift) - 1); }

void choose(std::vector<int64_t>& places, const RecordChoice& choice) {
  if (choice.most <= 0 || std::ssize(places) <= choice.most) return;
  const auto rank = [&](int64_t place) { return mix(mix(choice.seed) ^ place); };
  std::nth_element(places.begin(), places.begin() + choice.most, places.end(),
                   [&](int64_t a, int64_t b) { return rank(a) < rank(b); });
  places.resize(choice.most);
  std::ranges::sort(places);
}

/// A workload whose records are being read.
struct OpenGroup {
  std::unique_ptr<ProgramGraphs> graphs;
  std::vector<double> runtimes;
  std::vector<std::string> ids;
  int64_t successful = 0;
};

class RecordPacker {
 public:
  RecordPacker(const std::filesystem::path& file, const RecordIndex& index, const RecordPackOptions& options)
      : index_(index),
        options_(options),
        columns_(options.columns > 0 ? options.columns : columns_of(index, options.representation)),
        names_(record_file_names(index.files)),
        writer_(file) {
    if (options.representation == configs::Representation::loops && are_gpu_columns(columns_) != index.gpu)
      throw DataError("tuning records: found programs for {}, but the graphs to make have the {} node features for {}",
                      index.gpu ? "GPUs" : "CPUs", columns_, index.gpu ? "CPUs" : "GPUs");
  }

  RecordPackCounts pack(std::span<const int64_t> groups) {
    for (size_t first = 0; first < groups.size();) {
      const size_t count = batch(groups.subspan(first));
      read(groups.subspan(first, count));
      first += count;
    }
    writer_.finish();
    return counts_;
  }

 private:
  const RecordGroup& group(int64_t id) const { return index_.groups[id]; }

  /// Returns the number of groups that can be read in one pass: the open ones must fit into memory.
  size_t batch(std::span<const int64_t> groups) const {
    const double bytes_of_program = nodes_of_program(options_.representation) * 8.0 * columns_ + kEdgesOfProgram * 16.0;
    const int64_t most = options_.memory / bytes_of_program;
    size_t fits = 1, beyond = groups.size() + 1;  // more groups have no fewer records open
    while (fits + 1 < beyond) {
      const size_t middle = fits + (beyond - fits) / 2;
      (most_open(groups.first(middle)) <= most ? fits : beyond) = middle;
    }
    return fits;
  }

  /// Records that are held at once where these groups are read together, each from its first record to its last.
  int64_t most_open(std::span<const int64_t> groups) const {
    std::vector<std::pair<int64_t, int64_t>> changes;  // place, records more from there on
    for (const int64_t id : groups) {
      const auto& places = group(id).places;
      changes.emplace_back(places.front(), std::ssize(places));
      changes.emplace_back(places.back() + 1, -std::ssize(places));
    }
    std::ranges::sort(changes);
    int64_t open = 0, peak = 0;
    for (const auto& change : changes) peak = std::max(peak, open += change.second);
    return peak;
  }

  void read(std::span<const int64_t> groups) {
    std::map<std::string, int64_t, std::less<>> by_key;
    std::vector<std::vector<int64_t>> lines(index_.files.size());
    for (const int64_t id : groups) {
      by_key.emplace(group(id).key, id);
      for (const int64_t place : group(id).places) lines[file_of(place)].push_back(line_of(place));
    }
    std::map<int64_t, OpenGroup> open;
    size_t next = 0;  // groups end in their order
    for (size_t file = 0; file < lines.size(); ++file) {
      if (lines[file].empty()) continue;
      const auto& path = index_.files[file];
      file_ = path;
      RecordReader reader(path, {.lines = line_set(lines[file], path.string())});
      while (next < groups.size() && (index_.failures ? reader.next_with_failed(record_) : reader.next(record_))) {
        const auto found = by_key.find(index_.machines.group_key(record_));
        if (found == by_key.end())
          throw DataError("{}: has changed between two readings, expected an unchanging file", path.string());
        const RecordGroup& of = group(found->second);
        auto [target, fresh] = open.try_emplace(found->second);
        if (fresh)
          target->second.graphs =
              make_program_graphs(options_.representation, index_.machines.hardware_of(record_), columns_);
        const int64_t line = record_.line - 1;
        add(of, index_.files.size() == 1 ? fmt::to_string(line) : fmt::format("{}:{}", names_[file], line),
            target->second);
        if (place_of(file, record_.line - 1) == of.places.back()) {
          write(of, target->second);
          open.erase(target);
          ++next;
        }
      }
    }
    if (next != groups.size())
      throw DataError("tuning records: found fewer than at the first reading, expected unchanging files");
    if (!groups.empty() && counts_.programs == counts_.skipped)
      throw DataError("tuning records: no workload has enough records that can be replayed ({})",
                      counts_.first_refusal);
  }

  void add(const RecordGroup& of, std::string id, OpenGroup& target) {
    try {
      programs_.read(of.dag, record_, program_);
      target.graphs->add(program_, of.dag->flops);
      target.runtimes.push_back(record_.mean_cost());
      target.ids.push_back(std::move(id));
      target.successful += std::isfinite(target.runtimes.back());
      ++counts_.programs;
    } catch (const DataError& error) {
      if (counts_.refused++ == 0)
        counts_.first_refusal = fmt::format("{}:{}: {}", file_.string(), record_.line, error.what());
    }
  }

  void write(const RecordGroup& of, OpenGroup& open) {
    if (open.successful < options_.least) {
      counts_.skipped += std::ssize(open.runtimes);
      return;
    }
    counts_.failed += std::ssize(open.runtimes) - open.successful;
    Group group;
    group.name = of.name;
    group.kind = CandidateKind::program;
    group.unit = RuntimeUnit::seconds;
    group.candidates = open.runtimes.size();
    const double operations = of.dag->flops;
    if (operations > 0.0) group.flops = std::vector<double>(open.runtimes.size(), operations);
    group.graphs = open.graphs->finish();
    group.runtimes = std::move(open.runtimes);
    group.candidate_ids = std::move(open.ids);
    writer_.add(group);
  }

  const RecordIndex& index_;
  const RecordPackOptions& options_;
  int64_t columns_;                 // node features to keep
  std::vector<std::string> names_;  // files' names in ids
  std::filesystem::path file_;      // file being read
  PackedWriter writer_;
  RecordPackCounts counts_;
  RecordProgram programs_;
  TuningRecord record_;
  LoopProgram program_;
};

/// Finds out about the machine of a group's first record. Throws DataError, with the record's place, where nothing is
/// known of it, and where it is a GPU among CPUs, whose graphs have other columns.
void add_machine(RecordIndex& index, const TuningRecord& record, const std::filesystem::path& file) {
  try {
    const bool gpu = index.machines.hardware_of(record).is_gpu();
    if (!index.groups.empty() && gpu != index.gpu)
      throw DataError(
          "target '{:.200}' is that of a {}, after records of {}, expected separate packings for CPUs and GPUs",
          record.target, gpu ? "GPU" : "CPU", gpu ? "CPUs" : "GPUs");
    if (is_gpu_target(record.target) != gpu)
      throw DataError("target '{:.200}' is that of a {}, but the hardware chosen for all records (--hardware) is a {}",
                      record.target, gpu ? "CPU" : "GPU", gpu ? "GPU" : "CPU (no multiprocessors)");
    index.gpu = gpu;
  } catch (const DataError& error) {
    throw DataError("{}:{}: {}", file.string(), record.line, error.what());
  }
}

/// Groups of one workload get names of their own.
void name_groups(std::vector<RecordGroup>& groups) {
  std::map<std::string, size_t> of_workload;
  for (const RecordGroup& group : groups) ++of_workload[group.workload_key];
  std::map<std::string, size_t> named;
  for (RecordGroup& group : groups) {
    group.name = group_name(group.workload_key);
    if (of_workload[group.workload_key] == 1) continue;
    auto machine = group.key.substr(group.workload_key.size() + 1);
    machine.resize(machine.find(' '));
    if (!machine.empty()) group.name += "@" + machine;
    if (const size_t before = named[group.name]++; before > 0) group.name += fmt::format("#{}", before + 1);
  }
}

}  // namespace

Hardware RecordMachines::hardware_of(const TuningRecord& record) const {
  return all ? *all : known.hardware_of(record.target, record.hardware);
}

std::string RecordMachines::group_key(const TuningRecord& record) const {
  if (all) return record.workload_key;
  const auto* machine = known.find(record.target);
  const auto name = machine ? std::string_view(machine->name) : model_of_target(record.target);
  if (is_gpu_target(record.target)) {
    const auto& parameters = record.hardware;
    return fmt::format("{}@{} {} {} {} {}", record.workload_key, name,
                       machine ? "" : architecture_of_target(record.target).name, parameters.threads_per_block,
                       parameters.shared_memory_per_block, parameters.warp_size);
  }
  const auto hardware = hardware_of_target(record.target, record.hardware.cores);
  return fmt::format("{}@{} {} {} {}", record.workload_key, name, hardware.vector_bytes, hardware.vector_registers,
                     hardware.cores);
}

RecordIndex index_records(const std::vector<std::filesystem::path>& files, const DagTable& dags,
                          const RecordChoice& choice, RecordMachines machines) {
  RecordIndex index;
  index.files = files;
  index.failures = choice.failures;
  index.machines = std::move(machines);
  std::map<std::string, size_t> by_key;
  std::set<std::string> missing;
  std::unordered_set<uint64_t> seen;
  TuningRecord record;
  for (size_t file = 0; file < files.size(); ++file) {
    RecordShare share;
    if (file < choice.lines.size() && choice.lines[file])
      share.lines = line_set(*choice.lines[file], files[file].string());
    RecordReader reader(files[file], share);
    while (choice.failures ? reader.next_with_failed(record) : reader.next(record)) {
      if (choice.never.contains(record.workload_key)) continue;
      if (!seen.insert(record.measurement_hash()).second) {
        ++index.copies;
        continue;
      }
      auto key = index.machines.group_key(record);
      auto found = by_key.find(key);
      if (found == by_key.end()) {
        auto dag = missing.contains(record.workload_key) ? nullptr : dags.find(record.workload_key);
        if (!dag) {
          ++index.without_dag;
          if (missing.insert(record.workload_key).second && index.missing_keys.size() < kMissingKept)
            index.missing_keys.push_back(record.workload_key);
          continue;
        }
        if (const auto name = index.machines.known.unknown(record.target); !index.machines.all && !name.empty())
          index.unknown_machines.emplace(name);
        found = by_key.emplace(key, index.groups.size()).first;
        add_machine(index, record, files[file]);
        index.groups.push_back({record.workload_key, "", std::move(key), std::move(dag), {}, 0});
      }
      index.groups[found->second].places.push_back(place_of(file, record.line - 1));
      index.groups[found->second].successful += record.error == RecordError::none;
    }
    const auto last = share.lines ? std::ssize(*share.lines) : 0;
    if (last > reader.line_number())
      throw DataError("{}: found {} lines, but the lines to take include {}, counted from 0", files[file].string(),
                      reader.line_number(), last - 1);
    index.failed += reader.counts().failed();
    if (const auto& malformed = reader.counts().first_malformed; index.malformed == 0 && !malformed.empty())
      index.first_malformed =
          fmt::format("{}:{}: {}", files[file].string(), malformed.front().line, malformed.front().reason);
    index.malformed += reader.counts().malformed;
  }
  for (RecordGroup& group : index.groups) choose(group.places, choice);
  const auto small = [&](const RecordGroup& group) {
    const bool leave = std::min<int64_t>(group.successful, std::ssize(group.places)) < choice.least;
    if (leave) index.skipped += std::ssize(group.places);
    return leave;
  };
  index.groups.erase(std::remove_if(index.groups.begin(), index.groups.end(), small), index.groups.end());
  name_groups(index.groups);
  std::ranges::sort(index.groups,
                    [](const RecordGroup& a, const RecordGroup& b) { return a.places.back() < b.places.back(); });
  for (const RecordGroup& group : index.groups) index.records += std::ssize(group.places);
  return index;
}

std::vector<GroupHeader> headers_of(const RecordIndex& index, configs::Representation representation) {
  std::vector<GroupHeader> headers;
  for (const RecordGroup& group : index.groups) {
    const auto records = std::ssize(group.places);
    GroupHeader header;
    header.name = group.name;
    header.kind = CandidateKind::program;
    header.graphs = header.candidates = records;
    header.nodes = static_cast<int64_t>(nodes_of_program(representation)) * records;
    header.edges = static_cast<int64_t>(kEdgesOfProgram) * records;
    header.feature_count = columns_of(index, representation);
    header.node_type_count = 1;
    headers.push_back(std::move(header));
  }
  return headers;
}

RecordPackCounts pack_records(const std::filesystem::path& file, const RecordIndex& index,
                              std::span<const int64_t> groups, const RecordPackOptions& options) {
  return RecordPacker(file, index, options).pack(groups);
}

}  // namespace foretime::data
