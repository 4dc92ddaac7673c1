/// How long it takes to open a graph and to sample the first training batch of it, beside numpy reading every entry of
/// the same .npz in the same run: once from the .npz, once from a packed collection that holds the same group and its
/// plan.
///
///   first_batch_bench [--candidates N] [--layers L] FILE.npz...
///
/// Foretime's time goes from nothing open to N sampled candidates of an open group: listing the file, opening it with
/// all checks, dividing its candidates, adjacency, sampling. The last ratios count the message plan of the sample too,
/// which numpy has no counterpart of, and whose time is the model's rather than the data's. Unlabelled files are
/// sampled from as if they were evaluated. numpy runs in /usr/bin/python3 and times itself, so that starting Python is
/// not held against it. Rounds of the three alternate, and the best of each counts; files are in the page cache for all
/// of them.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "bench/bench.h"
#include "bench/npz_kind.h"
#include "data/dataset/group_files.h"
#include "data/dataset/pack.h"
#include "data/files/packed.h"
#include "plans/message_plan.h"
#include "plans/plan_source.h"
#include "worker/batches/sampler.h"
#include "worker/store/group_store.h"

namespace {

namespace fs = std::filesystem;
using namespace foretime;

constexpr int kRounds = 3, kTurns = 8;
struct Times {
  double sampled = 1e300, planned = 1e300;  // seconds since nothing was open
  void keep_best(const Times& other) {
    sampled = std::min(sampled, other.sampled);
    planned = std::min(planned, other.planned);
  }
  void add(const Times& other) {
    sampled += other.sampled;
    planned += other.planned;
  }
};

/// From the name of the file to the first sample, and to its plan.
Times first_batch(const std::string& file, data::CandidateKind kind, bool labelled, int64_t candidates,
                  const plans::PlanRequest& request) {
  configs::Settings settings;
  settings.data.format = configs::choice_named<configs::DataFormat>(data::kind_name(kind)).value();
  (labelled ? settings.data.train : settings.data.test) = {file};
  settings.data.root = "/";
  settings.data.max_eval_candidates = candidates;
  settings.sampler.groups_per_batch = 1;
  settings.sampler.candidates_per_group = candidates;
  const double start = bench::wall_seconds();
  const auto since = [&] { return bench::wall_seconds() - start; };
  const auto dataset = sharding::make_dataset_index(settings);
  worker::GroupStore store(settings, dataset, {0}, {});
  store.prepare_plans(request);
  std::vector<int64_t> sampled;
  if (labelled) {
    const auto plan = sharding::make_shard_plan(dataset, 1, 1);
    sampled = worker::Sampler(plan, settings.sampler, 1).samples(0, 0, store).at(0).candidates;
  } else {
    sampled = store.get(0).evaluated;
  }
  const auto& loaded = store.get(0);
  Times times;
  times.sampled = since();
  plans::PlanBuilder builder(request);
  builder.add(loaded.group, sampled, loaded.plan_source);
  const auto made = std::move(builder).build();
  times.planned = since();
  if (made.candidates() != static_cast<int64_t>(sampled.size())) throw std::runtime_error("a plan without candidates");
  return times;
}

void measure(const std::vector<std::string>& files, int64_t candidates, int64_t layers) {
  const auto folder = fs::temp_directory_path() / fmt::format("first_batch_{}", getpid());
  fs::create_directories(folder);
  const plans::PlanRequest request{.layers = layers,
                                   .relations = {{plans::Direction::both, plans::EdgeNorm::mean, false}},
                                   .sharing = plans::Sharing::states};
  double numpy_all = 0;
  Times npz_all{0, 0}, packed_all{0, 0};
  const auto ratios = [](double numpy, const Times& times) {
    return fmt::format("ratio {:.1f}, with the plan {:.1f}", numpy / times.sampled, numpy / times.planned);
  };
  for (const auto& name : files) {
    const std::string file = fs::canonical(name).string(), packed = (folder / "packed.foretime").string();
    const auto kind = bench::kind_of(file);
    const auto headers = data::list_groups({file}, "/", kind);
    data::PackedWriter writer(packed);
    data::add_file(writer, headers.at(0));
    writer.finish();
    const bool labelled = data::load_packed(data::packed_headers(packed)[0]).labelled();
    double numpy_best = 1e300;
    Times npz_best, packed_best;
    for (int round = 0; round < kRounds; ++round) {
      // Turns one after the other: after another program ran, a first turn finds cold caches.
      const double numpy = bench::numpy_seconds(file, kTurns);
      if (numpy < 0) throw std::runtime_error("/usr/bin/python3 has no numpy");
      numpy_best = std::min(numpy_best, numpy);
      for (int turn = 0; turn < kTurns; ++turn)
        npz_best.keep_best(first_batch(file, kind, labelled, candidates, request));
      for (int turn = 0; turn < kTurns; ++turn)
        packed_best.keep_best(first_batch(packed, kind, labelled, candidates, request));
    }
    numpy_all += numpy_best;
    npz_all.add(npz_best);
    packed_all.add(packed_best);
    fmt::print("{}: numpy.load {:.2f} ms; from .npz {:.2f} ms, {}; from packed {:.2f} ms, {}\n",
               fs::path(file).filename().string(), numpy_best * 1e3, npz_best.sampled * 1e3,
               ratios(numpy_best, npz_best), packed_best.sampled * 1e3, ratios(numpy_best, packed_best));
    std::fflush(stdout);
  }
  fmt::print("all files, numpy.load / first batch: from .npz {}; from packed {}\n", ratios(numpy_all, npz_all),
             ratios(numpy_all, packed_all));
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
  const int least = files.empty() ? argc : 0;
  return bench::run(argc, argv, "[--candidates N] [--layers L] FILE.npz...", least, argc,
                    [&] { measure(files, candidates, layers); });
}
