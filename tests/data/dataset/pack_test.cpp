#include "data/dataset/pack.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "data/dataset/group_files.h"
#include "tests/data/groups.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::data {
namespace {

using ::testing::HasSubstr;
using testing::make_group;

class Pack : public testing::ScratchTest {
 protected:
  std::vector<GroupHeader> synthetic(int count) {
    const auto npz = folder_ / "npz";
    std::filesystem::create_directories(npz);
    for (int i = 0; i < count; ++i) {
      testing::write_synthetic(npz / ("synthetic_" + std::to_string(i) + ".npz"),
                               {40 + 7 * i, 5 + i, 60 * (1 + i % 3), static_cast<uint64_t>(i + 1)});
    }
    return list_groups({npz.string()}, ".", CandidateKind::layout);
  }
  /// The reference implementation: each group in memory as a whole.
  std::string packed_in_memory(const std::vector<GroupHeader>& headers) {
    PackedWriter writer(folder_ / "memory.foretime");
    for (const auto& header : headers) writer.add(load_group(header), header.fingerprint);
    writer.finish();
    return testing::read_text(folder_ / "memory.foretime");
  }
  std::string packed_by(const std::vector<GroupHeader>& headers, int64_t workers) {
    const auto lists = distribute_groups(headers, workers);
    std::vector<std::filesystem::path> parts;
    MemoryBudget memory(1);  // one group at a time
    for (size_t i = 0; i < lists.size(); ++i) {
      parts.push_back(folder_ / ("part" + std::to_string(i)));
      if (!lists[i].empty()) pack_groups(parts[i], headers, lists[i], memory);
    }
    std::vector<std::string> names;
    for (const auto& header : headers) names.push_back(header.name);
    join_parts(folder_ / "joined.foretime", parts, lists, names);
    return testing::read_text(folder_ / "joined.foretime");
  }
  std::string packed_at_once(const std::vector<GroupHeader>& headers) {
    MemoryBudget memory(1);
    std::vector<int64_t> all(headers.size());
    std::iota(all.begin(), all.end(), 0);
    pack_groups(folder_ / "one.foretime", headers, all, memory);
    return testing::read_text(folder_ / "one.foretime");
  }
};

TEST_F(Pack, StreamsTheBytesThatMemoryGives) {
  const auto headers = synthetic(4);
  EXPECT_EQ(packed_at_once(headers), packed_in_memory(headers));
}

TEST_F(Pack, StreamsWhatSynthMakes) {
  const testing::SynthSettings settings{300, 30, 700, 5};
  testing::write_synthetic(folder_ / "synthetic_a.foretime", settings);
  PackedWriter writer(folder_ / "memory.foretime");
  writer.add(testing::synthesize_layout_group(settings, "synthetic_a"));
  writer.finish();
  EXPECT_EQ(testing::read_text(folder_ / "synthetic_a.foretime"), testing::read_text(folder_ / "memory.foretime"));
}

TEST_F(Pack, GivesOneFileForAnyNumberOfWorkers) {
  const auto headers = synthetic(5);
  const auto expected = packed_in_memory(headers);
  for (const int64_t workers : {1, 2, 3, 5, 8}) EXPECT_EQ(packed_by(headers, workers), expected) << workers;
  EXPECT_EQ(verify_packed(folder_ / "joined.foretime"), 5);
}

TEST_F(Pack, RepacksACollection) {
  const auto headers = synthetic(3);
  const auto once = packed_at_once(headers);
  EXPECT_EQ(packed_by(packed_headers(folder_ / "one.foretime"), 2), once);
}

TEST_F(Pack, StreamsRealLayoutsAndTiles) {
  FORETIME_NEEDS_DATA();
  const auto data = testing::data_dir();
  for (const auto& [pattern, kind] : {std::pair("tpugraphs/npz/layout/xla/default", CandidateKind::layout),
                                      std::pair("tpugraphs/npz/tile", CandidateKind::tile)}) {
    auto headers = list_groups({pattern}, data, kind);
    std::erase_if(headers, [](const auto& header) { return header.candidates > 5000; });
    const auto expected = packed_in_memory(headers);
    EXPECT_EQ(packed_at_once(headers), expected);
    EXPECT_EQ(packed_by(headers, 3), expected);
  }
}

TEST_F(Pack, RemovesWhatKilledProcessesLeft) {
  const auto headers = synthetic(3);
  for (const int64_t threads : {1, 2}) {
    const auto out = folder_ / std::to_string(threads) / "out.foretime";
    std::filesystem::create_directory(out.parent_path());
    for (const char* left : {".77-0", ".77.part0", ".77.part1", ".77.part2.foretime-tmp.77-0", ".77.process0.77-0"})
      testing::write_text(out.string() + left + kAsideSuffix, "half");
    pack_collection(out, headers, {.threads = threads});
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out.parent_path()), {}), 1) << threads;
  }
}

TEST_F(Pack, StopsAtADamagedFile) {
  auto headers = synthetic(2);
  auto bytes = testing::read_text(headers[1].file);
  bytes[bytes.size() / 2] ^= 4;
  testing::write_text(headers[1].file, bytes);
  EXPECT_THROW(packed_at_once(headers), DataError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "one.foretime"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "only npz/ is left";
}

TEST(DealGroups, BalancesAndKeepsEveryGroup) {
  std::vector<GroupHeader> headers(50);
  for (size_t i = 0; i < headers.size(); ++i) {
    headers[i].nodes = 100 + static_cast<int64_t>(i * i);
    headers[i].feature_count = 140;
  }
  const auto lists = distribute_groups(headers, 4);
  std::vector<int64_t> seen;
  double least = 1e300, most = 0;
  for (const auto& list : lists) {
    double load = 0;
    for (const int64_t group : list) load += packing_cost(headers[static_cast<size_t>(group)]);
    least = std::min(least, load);
    most = std::max(most, load);
    EXPECT_TRUE(std::ranges::is_sorted(list));
    seen.insert(seen.end(), list.begin(), list.end());
  }
  std::ranges::sort(seen);
  std::vector<int64_t> all(headers.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
  EXPECT_LT(most / least, 1.05);
}

TEST(MemoryBudget, NeverGivesMoreThanItHas) {
  MemoryBudget budget(10);
  std::atomic<int> held{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          const int bytes = 1 + (i + t) % 12;  // 11 and 12 are more than there is, and come alone
          const MemoryBudget::Share share(budget, static_cast<uint64_t>(bytes));
          const int now = held += bytes;
          if (bytes <= 10) {
            EXPECT_LE(now, 10);
          } else {
            EXPECT_EQ(now, bytes);
          }
          held -= bytes;
        }
      });
    }
  }
  EXPECT_EQ(held, 0);
}

}  // namespace
}  // namespace foretime::data
