/// The public data sets: graphs and modules of TpuGraphs, records of TenSet.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/dataset/group_files.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/program_scorer.h"
#include "tests/inference/small_models.h"
#include "tests/support/paths.h"

namespace foretime::inference::testing {
namespace {

using data::CandidateKind;

data::Group load(const std::string& file, CandidateKind kind) {
  const auto folder = foretime::testing::data_dir() / "tpugraphs";
  return data::load_group(data::list_groups({file}, folder, kind).front());
}

TEST(RealData, LayoutsOfMeasuredGraphs) {
  FORETIME_NEEDS_DATA();
  for (const char* file :
       {"npz/layout/xla/default/train/unet3d.npz", "npz/layout/nlp/random/test/23559853d9702baaaacbb0c83fd32266.npz"}) {
    const auto group = load(file, CandidateKind::layout);
    for (const auto& form :
         {LayoutModel{}, LayoutModel{.compares = true, .tied = true}, LayoutModel{.prune_hops = 1}}) {
      const auto model = std::make_shared<const Model>(layout_bundle(form), Options{.threads = 2});
      const GraphScorer scorer(model, group);
      const auto expected = model->score_group(group);
      EXPECT_EQ(scorer.score_layouts(layouts_of(group, group.candidates), group.candidates), expected);
      if (form.compares) continue;  // on the candidates of the call
      expect_near(scorer.score_layouts(layouts_of(group, 20), 20), {expected.begin(), expected.begin() + 20});
    }
  }
}

TEST(RealData, RecordsOfTenSet) {
  FORETIME_NEEDS_DATA();
  const auto folder = foretime::testing::data_dir() / "tenset";
  const auto model = std::make_shared<const Model>(loops_bundle(), Options{.threads = 2});
  std::map<std::string, std::unique_ptr<WorkloadScorer>> scorers;
  data::LineSource tables(folder / "dags.jsonl.gz");
  while (const auto line = tables.next()) {
    auto scorer = std::make_unique<WorkloadScorer>(model, line->text);
    const auto key = scorer->dag().workload_key;
    scorers[key] = std::move(scorer);
  }
  std::map<std::string, std::vector<std::string>> records;
  data::LineSource lines(folder / "records.jsonl.gz");
  constexpr int kMost = 3000;
  int count = 0;
  for (auto line = lines.next(); line && count < kMost; line = lines.next()) {
    data::TuningRecord record;
    data::RecordParser().parse(line->text, record);
    if (!scorers.contains(record.workload_key)) continue;
    records[record.workload_key].emplace_back(line->text);
    ++count;
  }
  ASSERT_GT(count, 1000);
  for (const auto& [key, texts] : records) {
    const auto result = scorers.at(key)->score(views(texts));
    EXPECT_EQ(result.failed, 0) << key << ": " << result.first_failure;
    for (const float score : result.scores) ASSERT_TRUE(std::isfinite(score));
  }
}

TEST(RealData, ModulesOfTpuGraphs) {
  FORETIME_NEEDS_DATA();
  const auto layouts = std::make_shared<const Model>(layout_bundle()),
             tiles = std::make_shared<const Model>(tile_bundle());
  int modules = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(foretime::testing::data_dir() / "tpugraphs" / "pb")) {
    if (entry.path().extension() != ".pb" || entry.file_size() > (1 << 22)) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const bool tile = entry.path().string().find("tile") != std::string::npos;
    try {
      const auto scorer = GraphScorer::from_hlo(tile ? tiles : layouts, bytes);
      ++modules;
      const auto configurable = static_cast<int64_t>(scorer.configurable().size());
      const auto scores = tile ? scorer.score_tiles(random_tiles(3, 1), 3)
                               : scorer.score_layouts(random_layouts(3, configurable, 1), 3);
      EXPECT_TRUE(std::isfinite(scores.front())) << entry.path();
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("TuningData"), std::string::npos)
          << entry.path() << ": " << error.what();
    }
    if (modules == 10) break;
  }
  EXPECT_GT(modules, 0);
}

}  // namespace
}  // namespace foretime::inference::testing
