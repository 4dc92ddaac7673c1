/// How long it takes to open a graph and to draw the first training batch of it, beside numpy reading every member of
/// the same .npz in the same run: once from the .npz, once from a packed collection that holds the same group.
///
///   first_batch_bench [--candidates N] [--layers L] FILE.npz...
///
/// Foretime's time goes from nothing open to the message plan of N candidates: listing the file, opening it with all
/// checks, dividing its candidates, adjacency, plan. Unlabelled files are drawn from as if they were evaluated. numpy
/// runs in /usr/bin/python3 and times itself, so that starting Python is not held against it. Rounds of the three
/// alternate, and the best of each counts; files are in the page cache for all of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "data/catalogue.h"
#include "data/message_plan.h"
#include "data/npz_reader.h"
#include "data/packed.h"
#include "data/topology.h"
#include "worker/group_store.h"
#include "worker/sampler.h"

namespace {

namespace fs = std::filesystem;
using namespace foretime;

constexpr int kRounds = 5;
constexpr const char* kNumpyProgram =
    "import sys, time, numpy\n"
    "for line in sys.stdin:\n"
    "    start = time.perf_counter()\n"
    "    with numpy.load(sys.argv[1]) as archive:\n"
    "        arrays = [archive[name] for name in archive.files]\n"
    "    print(time.perf_counter() - start, flush=True)\n"
    "    del arrays\n";

/// A Python process that reads a file each time it is asked to, and says how long it took.
class Numpy {
 public:
  explicit Numpy(const std::string& file) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) throw std::runtime_error("pipe failed");
    child_ = fork();
    if (child_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (const int end : {to[0], to[1], from[0], from[1]}) close(end);
      execl("/usr/bin/python3", "python3", "-c", kNumpyProgram, file.c_str(), nullptr);
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    ask_ = fdopen(to[1], "w");
    answers_ = fdopen(from[0], "r");
  }
  ~Numpy() {
    fclose(ask_);
    fclose(answers_);
  }
  double seconds() {
    double seconds = -1;
    fmt::print(ask_, "\n");
    fflush(ask_);
    if (fscanf(answers_, "%lf", &seconds) != 1) throw std::runtime_error("/usr/bin/python3 has no numpy");
    return seconds;
  }

 private:
  pid_t child_ = -1;
  FILE* ask_ = nullptr;
  FILE* answers_ = nullptr;
};

data::CandidateKind kind_of(const std::string& file) {
  const data::NpzReader reader(file);
  if (reader.has("node_config_feat")) return data::CandidateKind::layout;
  return reader.has("config_feat") ? data::CandidateKind::tile : data::CandidateKind::program;
}

/// From the file's name to the plan of the first draw.
double first_batch_seconds(const std::string& file, data::CandidateKind kind, bool labelled, int64_t candidates,
                           const data::PlanRequest& request) {
  configs::Settings settings;
  settings.data.format = kind == data::CandidateKind::layout ? "layout"
                         : kind == data::CandidateKind::tile ? "tile"
                                                             : "programs";
  (labelled ? settings.data.train : settings.data.test) = {file};
  settings.data.root = "/";
  settings.data.max_eval_candidates = candidates;
  settings.sampler.groups_per_batch = 1;
  settings.sampler.candidates_per_group = candidates;
  const auto start = std::chrono::steady_clock::now();
  const auto catalogue = coordinator::make_catalogue(settings);
  worker::GroupStore store(settings, catalogue, {0}, {});
  store.prepare_topology(request);
  std::vector<int64_t> drawn;
  if (labelled) {
    const auto plan = coordinator::make_shard_plan(catalogue, 1, 1);
    drawn = worker::Sampler(plan, settings.sampler, 1).draw(0, 0, store).at(0).candidates;
  } else {
    drawn = store.get(0).evaluated;
  }
  data::PlanBuilder builder(request);
  const auto& loaded = store.get(0);
  builder.add(loaded.group, drawn, loaded.topology);
  const auto made = std::move(builder).build();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (made.candidates() != static_cast<int64_t>(drawn.size())) throw std::runtime_error("a plan without candidates");
  return seconds;
}

void measure(const std::vector<std::string>& files, int64_t candidates, int64_t layers) {
  const auto folder = fs::temp_directory_path() / fmt::format("first_batch_{}", getpid());
  fs::create_directories(folder);
  const data::PlanRequest request{.layers = layers,
                                  .relations = {{data::Direction::both, data::EdgeNorm::mean, false}}};
  double all[3] = {};
  for (const auto& name : files) {
    const std::string file = fs::canonical(name).string(), packed = (folder / "packed.foretime").string();
    const auto kind = kind_of(file);
    const auto headers = data::list_groups({file}, "/", kind);
    data::PackedWriter writer(packed);
    writer.add_file(headers.at(0));
    writer.finish();
    const bool labelled = data::load_packed(data::packed_headers(packed)[0]).labelled();
    double best[3] = {1e300, 1e300, 1e300};
    Numpy numpy(file);
    for (int round = 0; round < kRounds; ++round) {
      best[0] = std::min(best[0], numpy.seconds());
      best[1] = std::min(best[1], first_batch_seconds(file, kind, labelled, candidates, request));
      best[2] = std::min(best[2], first_batch_seconds(packed, kind, labelled, candidates, request));
    }
    for (int i = 0; i < 3; ++i) all[i] += best[i];
    fmt::print(
        "{}: numpy.load {:.2f} ms; first batch from .npz {:.2f} ms, ratio {:.1f}; from packed {:.2f} ms, ratio "
        "{:.1f}\n",
        fs::path(file).filename().string(), best[0] * 1e3, best[1] * 1e3, best[0] / best[1], best[2] * 1e3,
        best[0] / best[2]);
    std::fflush(stdout);
  }
  fmt::print("all files: numpy.load / first batch = {:.1f} from .npz, {:.1f} from packed\n", all[0] / all[1],
             all[0] / all[2]);
  fs::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t candidates = 16, layers = 2;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if ((word == "--candidates" || word == "--layers") && i + 1 < argc) {
      (word == "--candidates" ? candidates : layers) = std::stoll(argv[++i]);
    } else {
      files.push_back(word);
    }
  }
  if (files.empty()) {
    fmt::print(stderr, "usage: first_batch_bench [--candidates N] [--layers L] FILE.npz...\n");
    return 2;
  }
  try {
    measure(files, candidates, layers);
  } catch (const std::exception& error) {
    fmt::print(stderr, "first_batch_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
