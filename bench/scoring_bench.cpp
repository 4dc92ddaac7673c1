#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <malloc.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "bench/bench.h"
#include "data/dataset/group_files.h"
#include "models/statistics.h"
#include "worker/evaluation/evaluator.h"

/// Seconds to score every candidate of a layout file, once it is read: plan, model and all. Prints one JSON line.
/// usage: scoring_bench FILE [TYPE HIDDEN LAYERS THREADS ROUNDS]
namespace {

using namespace foretime;

void measure(const std::vector<std::string>& arguments) {
  const auto argument = [&](size_t i, const char* otherwise) {
    return i < arguments.size() ? arguments[i] : otherwise;
  };
  const auto header = data::list_groups({arguments.at(0)}, ".", data::CandidateKind::layout).at(0);
  const worker::LoadedGroup loaded{.group = data::load_group(header)};
  const auto& group = loaded.group;
  configs::Settings settings;
  settings.model.type = configs::choice_named<configs::ModelType>(argument(1, "residual_gcn")).value();
  settings.model.hidden = std::atol(argument(2, "32").c_str());
  settings.model.layers = std::atol(argument(3, "2").c_str());
  torch::set_num_threads(std::atoi(argument(4, "2").c_str()));
  torch::manual_seed(1);
  const models::InputSchema schema{group.kind, group.graphs.feature_count, group.graphs.node_type_count};
  const std::shared_ptr<models::CostModel> model = models::make_model(settings.model, schema);
  models::StatisticsAccumulator statistics(schema, settings.model.features.log);
  statistics.add(group);
  model->fit_transform(statistics.finish());
  const auto scorer = worker::model_scorer(model, models::TargetTransform::from(settings.loss), settings.loss,
                                           torch::kCPU, settings.trainer.eval_states);
  std::vector<int64_t> all(static_cast<size_t>(group.candidates));
  std::iota(all.begin(), all.end(), 0);
  const double seconds = bench::best_seconds(std::atoi(argument(5, "5").c_str()), bench::wall_seconds, [&] {
    if (scorer(loaded, all).scores.size() != all.size()) throw std::runtime_error("scores are missing");
  });
  fmt::print(
      "{{\"graph\": \"{}\", \"candidates\": {}, \"nodes\": {}, \"seconds\": {:.6f}, "
      "\"candidates_per_second\": {:.1f}}}\n",
      group.name, group.candidates, group.graphs.nodes(), seconds, static_cast<double>(group.candidates) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  // As the program itself does.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return bench::run(argc, argv, "FILE [TYPE HIDDEN LAYERS THREADS ROUNDS]", 1, 6,
                    [&] { measure(std::vector<std::string>(argv + 1, argv + argc)); });
}
