// usage: model_scores SETTINGS.yaml GRAPH.npz CANDIDATES OUT.safetensors
// Scores the first candidates of a layout or tile graph by an untrained model of a settings file, and writes its
// weights and buffers beside the scores (`scores`), for published_models.py to compute the same in PyTorch.

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>

#include "base/files.h"
#include "configs/load.h"
#include "data/dataset/group_files.h"
#include "models/model.h"
#include "models/safetensors.h"
#include "models/sparse/plan_tensors.h"
#include "models/statistics.h"
#include "plans/message_plan.h"

namespace {

using namespace foretime;

void write_scores(const std::filesystem::path& file, const std::string& graph, int64_t most,
                  const std::filesystem::path& out) {
  const auto settings = configs::load_settings(file).model;
  const bool tile = configs::load_settings(file).data.format == configs::DataFormat::tile;
  const auto headers = data::list_groups({graph}, ".", tile ? data::CandidateKind::tile : data::CandidateKind::layout);
  const data::Group group = data::load_group(headers.at(0));
  const models::InputSchema schema{group.kind, group.graphs.feature_count, group.graphs.node_type_count};

  torch::manual_seed(1);
  const auto model = models::make_model(settings, schema);
  models::StatisticsAccumulator statistics(schema, settings.features.log);
  statistics.add(group);
  model->fit_transform(statistics.finish());
  model->eval();

  std::vector<int64_t> ids(static_cast<size_t>(std::min(most, group.candidates)));
  std::iota(ids.begin(), ids.end(), 0);
  plans::PlanBuilder builder(model->plan_request());
  builder.add(group, ids);
  torch::NoGradGuard no_gradient;
  const auto scores = model->score(models::to_tensors(std::move(builder).build()));

  models::NamedTensors tensors = {{"scores", scores}};
  for (const auto& item : model->named_parameters()) tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model->named_buffers()) tensors.emplace_back(item.key(), item.value());
  const auto scored = files().open(out, Files::Open::replace);
  scored->write(models::serialize_safetensors(tensors));
  scored->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: model_scores SETTINGS.yaml GRAPH.npz CANDIDATES OUT.safetensors\n";
    return 2;
  }
  try {
    write_scores(argv[1], argv[2], std::stoll(argv[3]), argv[4]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
