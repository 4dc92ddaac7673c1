#include "data/frontends/ansor/printed/dag_conversion.h"

#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "base/error.h"
#include "base/output_target.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/printed/printed_dag.h"
#include "data/frontends/ansor/printed/printed_line.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"

namespace foretime::data {
namespace {

constexpr size_t kTried = 32;  // records of a workload that are replayed
constexpr size_t kNamed = 8;   // keys in messages

/// A DAG of a file, as far as it could be read.
struct Source {
  std::string place;  // FILE:LINE
  PrintedDag printed;
  std::optional<PrintedProgram> program;
  std::string hash;
  bool used = false;
};

/// A workload key with its DAG, and what its records say.
struct Workload {
  size_t source = 0;
  SplitLengths lengths = {};
  std::vector<ScheduleSteps> schedules = {};
  std::string conflict = {};
};

std::vector<Source> read_sources(const std::vector<std::filesystem::path>& files,
                                 std::vector<DagConversion::LeftOut>& left_out) {
  std::vector<Source> sources;
  for (const auto& file : files) {
    for (auto& printed : read_printed_dags(file)) {
      Source source{.place = fmt::format("{}:{}", file.string(), printed.line),
                    .printed = std::move(printed),
                    .program = std::nullopt,
                    .hash = {}};
      try {
        source.program.emplace(source.printed.text);
        source.hash = printed_hash(source.printed.text);
        sources.push_back(std::move(source));
      } catch (const DataError& error) {
        left_out.push_back({source.place, error.what()});
      }
    }
  }
  return sources;
}

/// The DAG with this key above it, or with its md5 and shapes; null: none has.
const Source* source_of(const std::vector<Source>& sources, const std::string& key) {
  for (const auto& source : sources) {
    if (source.printed.key == key) return &source;
  }
  const auto json = nlohmann::json::parse(key, nullptr, false);
  if (!json.is_array() || json.empty() || !json[0].is_string()) return nullptr;
  for (const auto& source : sources) {
    if (source.printed.key.empty() && source.hash == json[0].get_ref<const std::string&>() &&
        source.program->has_inputs_of(key))
      return &source;
  }
  return nullptr;
}

/// Why none of the schedules can be replayed; empty: some can.
std::string replay_failure(const std::string& line, const std::vector<ScheduleSteps>& schedules) {
  const auto dag = std::make_shared<const ComputeDag>(parse_compute_dag(line));
  Replayer replayer;
  LoopNest nest;
  std::string why;
  for (const auto& schedule : schedules) {
    try {
      replayer.replay(dag, schedule, nest);
      return "";
    } catch (const DataError& error) {
      if (why.empty()) why = error.what();
    }
  }
  return why;
}

std::string gzip(const std::string& text) {
  constexpr int kGzip = 15 + 16, kMemory = 8;  // deflateInit2's window with gzip's header, and its usual memory
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw DataError("zlib cannot start");
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib does not write there
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  const int ended = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (ended != Z_STREAM_END) throw DataError("zlib cannot compress {} bytes", text.size());
  return out;
}

}  // namespace

DagConversion convert_printed_dags(const std::vector<std::filesystem::path>& printed,
                                   const std::vector<std::filesystem::path>& records,
                                   const std::filesystem::path& out) {
  DagConversion done;
  auto sources = read_sources(printed, done.left_out);
  std::map<std::string, std::optional<Workload>> workloads;  // by key; empty: no text is of it
  const auto workload_of = [&](const std::string& key) -> std::optional<Workload>& {
    const auto [at, fresh] = workloads.try_emplace(key);
    if (!fresh) return at->second;
    if (const auto* source = source_of(sources, key); source != nullptr)
      at->second = Workload{.source = static_cast<size_t>(source - sources.data())};
    return at->second;
  };
  for (const auto& source : sources) {
    if (!source.printed.key.empty()) workload_of(source.printed.key);
  }
  for (const auto& file : records) {
    RecordReader reader(file);
    TuningRecord record;
    while (reader.next_with_failed(record)) {
      auto& workload = workload_of(record.workload_key);
      if (!workload || !workload->conflict.empty()) continue;
      const auto& program = *sources[workload->source].program;
      try {
        add_split_lengths(record.schedule, program.axes(), program.spatial_axes(), workload->lengths);
      } catch (const DataError& error) {
        workload->conflict = error.what();
      }
      if (workload->schedules.size() < kTried) workload->schedules.push_back(record.schedule);
    }
    if (const auto& counts = reader.counts(); counts.malformed > 0)
      done.left_out.push_back({fmt::format("{}:{}", file.string(), counts.first_malformed.front().line),
                               fmt::format("{} (the first of {} lines that are no records)",
                                           counts.first_malformed.front().reason, counts.malformed)});
  }
  std::string text;
  for (auto& [key, workload] : workloads) {
    if (!workload) {
      ++done.without_dag;
      if (done.first_without_dag.size() < kNamed) done.first_without_dag.push_back(key);
      continue;
    }
    auto& source = sources[workload->source];
    source.used = true;
    const auto leave_out = [&](const std::string& why) { done.left_out.push_back({source.place, why}); };
    if (!workload->conflict.empty()) {
      leave_out(workload->conflict);
      continue;
    }
    try {
      const auto line = source.program->to_json(key, workload->lengths, source.printed.hints);
      if (const auto why = replay_failure(line, workload->schedules); !why.empty())
        throw DataError("none of {} records fits it: {}", workload->schedules.size(), why);
      text += line + "\n";
      ++done.written;
      done.replayed += std::ssize(workload->schedules);
    } catch (const DataError& error) {
      leave_out(error.what());
    }
  }
  for (const auto& source : sources) {
    if (source.used) continue;
    const char* why = records.empty() ? "no workload key stands above it; give --records, whose keys tell"
                                      : "no record has its md5 and shapes, and no workload key stands above it";
    done.left_out.push_back({source.place, why});
  }
  if (done.written == 0)
    throw DataError("{}: no compute DAG that is known as a whole; {}: {}", printed.front().string(),
                    done.left_out.empty() ? std::string("the first key") : done.left_out.front().what,
                    done.left_out.empty() ? "no DAG" : done.left_out.front().why);
  write_output(out, out.extension() == ".gz" ? gzip(text) : text);
  return done;
}

}  // namespace foretime::data
