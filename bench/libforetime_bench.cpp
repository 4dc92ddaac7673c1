/// Scoring through the C interface, as a tuner does it.
///
///   libforetime_bench records MODEL STAGES RECORDS [THREADS]  candidates/s from record text to score; STAGES a stage
///                                                             table, RECORDS auto_scheduler's JSON lines, both plain
///   libforetime_bench layouts MODEL GRAPH.npz [THREADS]       all candidates of a layout graph in one call
///   libforetime_bench start MODEL STAGES RECORDS              a fresh process: from exec to the first score, memory
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "data/dataset/group_files.h"
#include "inference/capi/foretime.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check(foretime_status status) {
  if (status == FORETIME_OK) return;
  fmt::print(stderr, "libforetime_bench: {}: {}\n", foretime_status_name(status), foretime_last_error());
  std::exit(1);
}

std::vector<std::string> lines_of(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#' && line[0] != ' ') lines.push_back(line);
  }
  return lines;
}

foretime_model* open_model(const char* path, const char* threads) {
  foretime_options options{};
  options.size = sizeof(options);
  options.threads = threads ? std::atoi(threads) : 1;
  foretime_model* model = nullptr;
  check(foretime_open(path, &options, &model));
  return model;
}

/// Records by the compute DAG of their workload.
struct Task {
  foretime_workload* workload = nullptr;
  std::vector<const char*> records;
};

std::map<std::string, Task> tasks_of(const foretime_model* model, const std::vector<std::string>& stages,
                                     const std::vector<std::string>& records) {
  std::map<std::string, Task> tasks;
  for (const auto& table : stages) {
    const auto key = nlohmann::json::parse(table).at("workload_key").get<std::string>();
    check(foretime_workload_open(model, table.data(), table.size(), &tasks[key].workload));
  }
  for (const auto& record : records) {
    const auto found = tasks.find(nlohmann::json::parse(record).at("i").at(0).at(0).get<std::string>());
    if (found != tasks.end()) found->second.records.push_back(record.c_str());
  }
  return tasks;
}

int score_records(char** arguments, const char* threads) {
  auto* model = open_model(arguments[0], threads);
  const auto stages = lines_of(arguments[1]), records = lines_of(arguments[2]);
  auto tasks = tasks_of(model, stages, records);
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    int64_t scored = 0, failed = 0;
    for (const auto& [key, task] : tasks) {
      std::vector<float> scores(task.records.size());
      int64_t of_task = 0;
      check(foretime_score_records(task.workload, task.records.data(), nullptr,
                                   static_cast<int64_t>(task.records.size()), scores.data(), &of_task));
      scored += static_cast<int64_t>(scores.size());
      failed += of_task;
    }
    const double seconds = seconds_since(start);
    fmt::print("records: {} in {:.3f} s, {:.0f} candidates/s, {} not scored\n", scored, seconds,
               static_cast<double>(scored) / seconds, failed);
  }
  for (const auto& [key, task] : tasks) foretime_workload_close(task.workload);
  foretime_close(model);
  return 0;
}

int score_layouts(char** arguments, const char* threads) {
  auto* model = open_model(arguments[0], threads);
  const auto headers = foretime::data::list_groups({arguments[1]}, ".", foretime::data::CandidateKind::layout);
  const auto group = foretime::data::load_group(headers.at(0));
  const auto& block = group.graphs;
  const auto& layout = group.layout;
  std::vector<int8_t> layouts;
  layouts.reserve(static_cast<size_t>(group.candidates * layout.configurable() * 18));
  for (int64_t c = 0; c < group.candidates; ++c) {
    for (int64_t j = 0; j < layout.configurable(); ++j) {
      const int8_t* row = layout.rows.data() + (layout.row_ptr[j] + layout.codes[c * layout.configurable() + j]) * 18;
      layouts.insert(layouts.end(), row, row + 18);
    }
  }
  foretime_graph_data data{};
  data.size = sizeof(data);
  data.nodes = block.nodes();
  data.features = block.feature_count;
  data.node_features = block.node_features.data();
  data.node_types = block.node_types.data();
  data.edges = block.edges();
  data.edge_consumer = block.edge_target.data();
  data.edge_producer = block.edge_source.data();
  data.configurable = layout.configurable();
  data.configurable_nodes = layout.nodes.data();
  foretime_graph* graph = nullptr;
  auto start = Clock::now();
  check(foretime_graph_open(model, &data, &graph));
  fmt::print("graph: {} nodes, prepared in {:.4f} s\n", data.nodes, seconds_since(start));
  std::vector<float> scores(static_cast<size_t>(group.candidates));
  for (int round = 0; round < 3; ++round) {
    start = Clock::now();
    check(foretime_score_layouts(graph, layouts.data(), group.candidates, scores.data()));
    const double seconds = seconds_since(start);
    fmt::print("layouts: {} in {:.3f} s, {:.0f} candidates/s\n", group.candidates, seconds,
               static_cast<double>(group.candidates) / seconds);
  }
  foretime_graph_close(graph);
  foretime_close(model);
  return 0;
}

std::string status_of(const char* key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(line.find_first_of("0123456789"));
  }
  return "unknown";
}

/// `begun`: nanoseconds of the monotonic clock just before exec.
int first_score(char** arguments, int64_t begun) {
  const auto now = [] { return Clock::now().time_since_epoch().count(); };
  const auto at_main = now();
  auto* model = open_model(arguments[0], nullptr);
  const auto at_open = now();
  std::ifstream stages(arguments[1]), records(arguments[2]);
  std::string table, record;
  std::getline(stages, table);
  const auto key = nlohmann::json::parse(table).at("workload_key").get<std::string>();
  while (std::getline(records, record) && record.find(nlohmann::json(key).dump()) == std::string::npos) {
  }
  foretime_workload* workload = nullptr;
  check(foretime_workload_open(model, table.data(), table.size(), &workload));
  const char* texts[] = {record.c_str()};
  float score = 0;
  check(foretime_score_records(workload, texts, nullptr, 1, &score, nullptr));
  const auto at_score = now();
  const auto milliseconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; };
  fmt::print(
      "start: exec to main {:.1f} ms, open {:.1f} ms, first score {:.1f} ms, in all {:.1f} ms; resident {}, score {}\n",
      milliseconds(at_main - begun), milliseconds(at_open - at_main), milliseconds(at_score - at_open),
      milliseconds(at_score - begun), status_of("VmRSS:"), score);
  return 0;
}

int start(char** arguments) {
  for (int round = 0; round < 5; ++round) {
    const auto begun = fmt::format("{}", Clock::now().time_since_epoch().count());
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "libforetime_bench", "first-score", begun.c_str(), arguments[0], arguments[1],
            arguments[2], nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "records" && count >= 5) return score_records(arguments + 2, count > 5 ? arguments[5] : nullptr);
  if (mode == "layouts" && count >= 4) return score_layouts(arguments + 2, count > 4 ? arguments[4] : nullptr);
  if (mode == "start" && count == 5) return start(arguments + 2);
  if (mode == "first-score" && count == 6) return first_score(arguments + 3, std::atoll(arguments[2]));
  fmt::print(stderr,
             "usage: libforetime_bench records MODEL STAGES RECORDS [THREADS] | layouts MODEL GRAPH.npz [THREADS] "
             "| start MODEL STAGES RECORDS\n");
  return 2;
}
