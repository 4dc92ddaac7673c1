#include "coordinator/cost.h"

#include <gtest/gtest.h>

#include "configs/load.h"

namespace foretime::coordinator {
namespace {

/// The largest published graph.
data::GroupHeader large_header() {
  data::GroupHeader header;
  header.file = "large.npz";
  header.name = "large";
  header.graphs = 1;
  header.nodes = 43615;
  header.edges = 70000;
  header.candidates = 100040;
  header.configurable = 3143;
  header.feature_count = 140;
  return header;
}

configs::Settings with_segments(int64_t nodes, int64_t limit) {
  configs::Settings settings;
  settings.model.hidden = 8;
  settings.model.readout = {"mean"};
  settings.sampler.max_segment_nodes = nodes;
  settings.shard.max_rank_bytes = limit;
  return settings;
}

std::string refusal(const configs::Settings& settings) {
  try {
    count_parts(large_header(), settings);
  } catch (const configs::SettingsError& error) {
    return error.what();
  }
  return "";
}

TEST(ResidentBytes, AreWhatTheHeaderSays) {
  const auto header = large_header();
  const auto whole = estimate_resident_bytes(header, with_segments(0, 0));
  EXPECT_DOUBLE_EQ(whole.divided, 3143.0 * 100040 + 43615.0 * (4 * 140 + 9) + 24 * 70000.0);
  EXPECT_DOUBLE_EQ(whole.whole, 24.0 * 100040 + 8.0 * 43615 * 16 * 8 * (2 + 2 + 1));
  const auto cut = estimate_resident_bytes(header, with_segments(1000, 0));
  EXPECT_DOUBLE_EQ(cut.divided - whole.divided, 4.0 * 44 * 100040 * 8);
  EXPECT_DOUBLE_EQ(cut.whole, 24.0 * 100040 + 8.0 * 1000 * 16 * 8 * (2 + 2 + 1));
}

TEST(CountParts, IsTheSmallestNumberThatMeetsTheLimit) {
  const auto header = large_header();
  EXPECT_EQ(count_parts(header, with_segments(1000, 0)), 1);
  EXPECT_EQ(count_parts(header, with_segments(1000, int64_t{1} << 40)), 1);
  for (const int64_t limit : {400'000'000, 200'000'000, 50'000'000}) {
    const auto settings = with_segments(1000, limit);
    const auto bytes = estimate_resident_bytes(header, settings);
    const auto parts = static_cast<double>(count_parts(header, settings));
    EXPECT_GT(parts, 1);
    EXPECT_LE(bytes.divided / parts + bytes.whole, static_cast<double>(limit));
    EXPECT_GT(bytes.divided / (parts - 1) + bytes.whole, static_cast<double>(limit));
  }
}

TEST(CountParts, RefusesWhatNoCutCanMeetAndSaysWhatToChange) {
  EXPECT_NE(refusal(with_segments(0, 1'000'000)).find("set sampler.max_segment_nodes"), std::string::npos);
  EXPECT_NE(refusal(with_segments(0, 1'000'000)).find("large.npz"), std::string::npos);
  // Less than what each part has whole, and more parts than segments.
  EXPECT_NE(refusal(with_segments(1000, 3'000'000)).find("lower sampler.max_segment_nodes"), std::string::npos);
  EXPECT_NE(refusal(with_segments(20000, 100'000'000)).find("3 segments"), std::string::npos);
}

TEST(CountParts, TilesAndProgramsAreNeverCut) {
  auto header = large_header();
  for (const auto kind : {data::CandidateKind::tile, data::CandidateKind::program}) {
    header.kind = kind;
    EXPECT_EQ(count_parts(header, with_segments(0, 1)), 1);
  }
}

}  // namespace
}  // namespace foretime::coordinator
