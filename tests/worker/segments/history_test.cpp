#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "comm/backends/factory.h"
#include "models/graph/error.h"
#include "tests/support/ranks.h"
#include "worker/segments/segment_history.h"

namespace foretime::worker {
namespace {

using foretime::testing::run_ranks;

constexpr int64_t kPlenty = 1 << 30;

/// Entry 0 lies in one lane, entry 1 in all of them.
sharding::ShardPlan plan_of(int lanes, int ranks) {
  sharding::ShardPlan plan;
  for (int lane = 0; lane < lanes; ++lane) {
    sharding::BatchSlot made;
    if (lane == 0) made.shares.push_back({.entry = 0, .part = 0, .first = 0, .count = 1});
    made.shares.push_back({.entry = 1, .part = lane, .first = 0, .count = 1});
    plan.slots.push_back(made);
    plan.slot_rank.push_back(lane % ranks);
  }
  return plan;
}

TEST(HistoryTable, KeepsWhatWasWrittenLast) {
  HistoryTable table(2, kPlenty);
  const float first[] = {1, 2}, second[] = {3, 4};
  EXPECT_EQ(table.find({0, 0, 5}), nullptr);
  table.write({0, 0, 5}, 1, first);
  table.write({0, 1, 5}, 1, second);
  table.write({1, 0, 5}, 2, second);
  ASSERT_NE(table.find({0, 0, 5}), nullptr);
  EXPECT_EQ(table.find({0, 0, 5})[1], 2);
  EXPECT_EQ(table.find({0, 1, 5})[0], 3);
  EXPECT_EQ(table.find({0, 0, 4}), nullptr);
  EXPECT_EQ(table.find({0, 0, 6}), nullptr);
  table.write({0, 0, 5}, 3, second);
  EXPECT_EQ(table.find({0, 0, 5})[1], 4);
}

TEST(HistoryTable, AgreesWithAMap) {
  std::mt19937 random(5);
  for (const int64_t columns : {1, 3, 300}) {
    HistoryTable table(columns, kPlenty);
    std::map<HistoryKey, float> expected;
    std::vector<float> row(static_cast<size_t>(columns));
    for (int i = 0; i < 3000; ++i) {
      const HistoryKey key{static_cast<int64_t>(random() % 3), static_cast<int64_t>(random() % 4),
                           static_cast<int64_t>(random() % 700)};
      row.assign(row.size(), static_cast<float>(i));
      table.write(key, i, row.data());
      expected[key] = static_cast<float>(i);
    }
    for (int64_t candidate = 0; candidate < 700; ++candidate) {
      const HistoryKey key{1, 2, candidate};
      const auto* found = table.find(key);
      ASSERT_EQ(found != nullptr, expected.contains(key));
      if (found == nullptr) continue;
      EXPECT_EQ(found[columns - 1], expected[key]);
    }
    HistoryRows rows;
    for (const int64_t entry : {0, 1, 2}) rows.append(table.rows(entry));
    ASSERT_EQ(rows.size(), static_cast<int64_t>(expected.size()));
    EXPECT_TRUE(std::is_sorted(rows.keys.begin(), rows.keys.end()));
  }
}

TEST(HistoryTable, MemoryIsTakenAsRowsAreWrittenAndBounded) {
  HistoryTable table(1, 64 * 1024);
  const float value = 1;
  table.write({0, 0, 100'000}, 0, &value);
  EXPECT_LT(table.bytes(), 4 * 1024) << "one row must not allocate the rows before it";
  for (int64_t segment = 0; segment < 10; ++segment) {
    for (int64_t candidate = 0; candidate < 20'000; ++candidate) {
      table.write({1, segment, candidate}, 1 + segment, &value);
      ASSERT_LE(table.bytes(), 66 * 1024);
    }
  }
  EXPECT_EQ(table.find({0, 0, 100'000}), nullptr) << "the oldest row is forgotten first";
  EXPECT_EQ(table.find({1, 0, 0}), nullptr);
  EXPECT_NE(table.find({1, 9, 19'999}), nullptr);
}

/// Rows of other ranks come late: a block that has a newer row already is not older for one of them.
TEST(HistoryTable, ABlockIsForgottenByItsNewestRow) {
  constexpr int64_t kBlock = 256 * sizeof(float) + 80;
  HistoryTable table(1, 2 * kBlock);
  const float value = 1;
  table.write({0, 0, 0}, 5, &value);
  table.write({0, 1, 0}, 3, &value);
  table.write({0, 0, 1}, 1, &value);
  EXPECT_EQ(table.bytes(), 2 * kBlock);
  table.write({0, 2, 0}, 6, &value);
  EXPECT_EQ(table.bytes(), 2 * kBlock);
  EXPECT_NE(table.find({0, 0, 0}), nullptr);
  EXPECT_NE(table.find({0, 0, 1}), nullptr);
  EXPECT_EQ(table.find({0, 1, 0}), nullptr);
  EXPECT_EQ(table.rows(0).sample_indices, (std::vector<int64_t>{5, 5, 6}));
}

TEST(HistoryTable, NotANumberIsAbsent) {
  HistoryTable table(1, kPlenty);
  const float nothing = std::numeric_limits<float>::quiet_NaN(), value = 2;
  table.write({0, 0, 0}, 0, &nothing);
  EXPECT_EQ(table.find({0, 0, 0}), nullptr);
  table.write({0, 0, 0}, 1, &value);
  table.write({0, 0, 0}, 2, &nothing);
  EXPECT_EQ(table.find({0, 0, 0})[0], 2);
}

TEST(SegmentHistory, SharedRowsAreSeenAfterTheExchange) {
  for (const int ranks : {1, 2, 4}) {
    run_ranks({"threads", ranks}, [&](comm::Communicator& comm) {
      const auto plan = plan_of(4, ranks);
      SegmentHistory history(plan, comm.rank(), 1, kPlenty);
      for (int64_t lane = 0; lane < 4; ++lane) {
        if (plan.slot_rank[static_cast<size_t>(lane)] != comm.rank()) continue;
        const auto value = static_cast<float>(lane);
        history.write({1, lane, 7}, lane, &value);
        // All lanes write this one: the draw with the largest sample_index wins, wherever it was made.
        history.write({1, 9, 7}, lane == 1 ? 40 : lane, &value);
        EXPECT_EQ(history.find({1, lane, 7}), nullptr) << "one rank alone must wait, too";
        if (lane == 0) {
          history.write({0, 0, 7}, 0, &value);
          EXPECT_NE(history.find({0, 0, 7}), nullptr) << "a graph of one lane is seen at once";
        }
      }
      history.exchange(comm);
      for (int64_t segment = 0; segment < 4; ++segment) {
        ASSERT_NE(history.find({1, segment, 7}), nullptr) << "rank " << comm.rank();
        EXPECT_EQ(history.find({1, segment, 7})[0], static_cast<float>(segment));
      }
      EXPECT_EQ(history.find({1, 9, 7})[0], 1);
    });
  }
}

TEST(SegmentHistory, AFileHoldsTheSameWhateverTheNumberOfRanks) {
  std::vector<std::string> files;
  for (const int ranks : {1, 2, 4}) {
    std::string file;
    run_ranks({"threads", ranks}, [&](comm::Communicator& comm) {
      const auto plan = plan_of(4, ranks);
      SegmentHistory history(plan, comm.rank(), 2, kPlenty);
      for (int64_t sample_index = 0; sample_index < 60; ++sample_index) {
        const int64_t lane = sample_index % 4;
        if (plan.slot_rank[static_cast<size_t>(lane)] != comm.rank()) {
          if (sample_index == 40) history.exchange(comm);
          continue;
        }
        const float row[] = {static_cast<float>(sample_index), 1};
        history.write({lane == 0 ? sample_index / 4 % 2 : 1, lane, sample_index % 9}, sample_index, row);
        if (sample_index == 40) history.exchange(comm);
      }
      const auto gathered = history.gather(comm, "label");
      EXPECT_EQ(gathered.empty(), comm.rank() != 0);
      if (comm.rank() == 0) file = gathered;
    });
    files.push_back(file);
  }
  EXPECT_EQ(files[0], files[1]);
  EXPECT_EQ(files[0], files[2]);

  // Back on other numbers of ranks: what waited still waits, and becomes visible at the next exchange.
  std::string again;
  run_ranks({"threads", 2}, [&](comm::Communicator& comm) {
    SegmentHistory history(plan_of(4, 2), comm.rank(), 2, kPlenty);
    EXPECT_FALSE(history.restore(files[0], "another label", "file"));
    EXPECT_EQ(history.find({1, 1, 57 % 9}), nullptr);
    ASSERT_TRUE(history.restore(files[0], "label", "file"));
    const auto gathered = history.gather(comm, "label");
    if (comm.rank() == 0) again = gathered;
    EXPECT_EQ(history.find({1, 1, 57 % 9})[0], 21) << "the newer row waits for the exchange";
    history.exchange(comm);
    ASSERT_NE(history.find({1, 1, 57 % 9}), nullptr);
    EXPECT_EQ(history.find({1, 1, 57 % 9})[0], 57);
    EXPECT_EQ(history.find({0, 0, 0}) != nullptr, comm.rank() == 0) << "rows go to the rank that trains the graph";
  });
  EXPECT_EQ(again, files[0]);
}

TEST(SegmentHistory, DamagedFilesAreRefused) {
  const auto comm = comm::make_communicator({configs::Backend::single, std::chrono::seconds(5)});
  SegmentHistory history(plan_of(2, 1), 0, 2, kPlenty), narrow(plan_of(2, 1), 0, 1, kPlenty);
  const float row[] = {1, 2};
  history.write({0, 0, 3}, 1, row);
  const auto file = history.gather(*comm, "label");
  EXPECT_THROW(history.restore(file.substr(0, file.size() - 1), "label", "file"), models::ModelError);
  EXPECT_THROW(narrow.restore(file, "label", "file"), models::ModelError);
}

}  // namespace
}  // namespace foretime::worker
