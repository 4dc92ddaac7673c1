#include "worker/profile/profiler.h"

#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/golden.h"
#include "tests/support/ranks.h"
#include "worker/profile/step_monitor.h"

namespace foretime::worker {
namespace {

using foretime::testing::run_ranks;
using ::testing::HasSubstr;
using Clock = Profiler::Clock;
using std::chrono::milliseconds;

SpanTotals totals_of(const ProfileSnapshot& snapshot, SpanPlace place, const std::string& name) {
  const auto found = snapshot.totals.find({place, name});
  return found == snapshot.totals.end() ? SpanTotals{} : found->second;
}

TEST(Profiler, CountsSpansAndWhatIsInside) {
  Profiler profiler;
  const auto now = Clock::now();
  {
    ProfileSpan outer(&profiler, "outer", "C1");
    profiler.add("inner", now, now + milliseconds(30));
    std::this_thread::sleep_for(milliseconds(40));
  }
  {
    ProfileSpan outer(&profiler, "outer");
    outer.next("after");
  }
  const auto snapshot = profiler.snapshot();
  const auto outer = totals_of(snapshot, SpanPlace::training, "outer");
  EXPECT_EQ(outer.count, 2);
  EXPECT_GE(outer.longest, 0.04);
  EXPECT_NEAR(outer.seconds - outer.self_seconds, 0.03, 1e-9);
  EXPECT_NEAR(totals_of(snapshot, SpanPlace::training, "inner").seconds, 0.03, 1e-9);
  EXPECT_EQ(totals_of(snapshot, SpanPlace::training, "after").count, 1);
  ASSERT_EQ(snapshot.events.size(), 4u);
  EXPECT_EQ(snapshot.texts[snapshot.events[1].detail], "C1");
  EXPECT_GE(snapshot.wall_ns, 40'000'000);
}

TEST(Profiler, ThreadsHaveLanesWhileTheyWork) {
  Profiler profiler;
  // Four threads at once, eight times: four lanes beside the training thread's.
  for (int round = 0; round < 8; ++round) {
    std::vector<std::thread> threads;
    std::atomic<int> ready = 0;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const ProfileSpan span(&profiler, "plan");
        for (++ready; ready < 4;) std::this_thread::yield();
        const ProfileSpan inner(&profiler, "inside");
      });
    }
    for (auto& thread : threads) thread.join();
  }
  const auto snapshot = profiler.snapshot();
  EXPECT_EQ(totals_of(snapshot, SpanPlace::beside, "plan").count, 32);
  EXPECT_EQ(totals_of(snapshot, SpanPlace::training, "plan").count, 0);
  std::set<int> lanes;
  for (const auto& event : snapshot.events) lanes.insert(event.lane);
  EXPECT_EQ(lanes, (std::set<int>{1, 2, 3, 4}));
}

TEST(Profiler, KeepsTheLatestSpansAndAllTotals) {
  Profiler profiler(100);
  for (int i = 0; i < 1234; ++i) {
    const ProfileSpan span(&profiler, i < 1200 ? "early" : "late", std::to_string(i));
  }
  const auto snapshot = profiler.snapshot();
  EXPECT_EQ(snapshot.events.size(), 100u);
  EXPECT_EQ(snapshot.dropped, 1134);
  EXPECT_EQ(totals_of(snapshot, SpanPlace::training, "early").count, 1200);
  for (size_t i = 1; i < snapshot.events.size(); ++i) {
    EXPECT_LE(snapshot.events[i - 1].begin_ns, snapshot.events[i].begin_ns);
  }
  EXPECT_EQ(snapshot.texts[snapshot.events.back().detail], "1233");
  const auto trace = nlohmann::json::parse(chrome_trace({{snapshot, "", 0}}));
  EXPECT_EQ(trace["otherData"]["dropped_spans"], (std::vector<int>{1134}));
  EXPECT_THAT(trace.dump(), HasSubstr("1134 earlier spans were dropped"));
}

TEST(Profiler, DetailsAreBounded) {
  Profiler profiler;
  for (size_t i = 0; i < 2 * Profiler::kMaxTexts; ++i) {
    const ProfileSpan span(&profiler, "group", std::to_string(i));
  }
  { const ProfileSpan span(&profiler, "a new name all the same"); }
  const auto snapshot = profiler.snapshot();
  EXPECT_LE(snapshot.texts.size(), Profiler::kMaxTexts + 1);
  EXPECT_EQ(totals_of(snapshot, SpanPlace::training, "a new name all the same").count, 1);
}

/// Every event of a trace, as chrome://tracing wants it: complete ones of one thread lie within each other or apart.
void check_trace(const nlohmann::json& trace) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> by_thread;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    ASSERT_TRUE(event.at("pid").is_number_integer() && event.at("tid").is_number_integer());
    if (phase != "X") continue;
    const double begin = event.at("ts"), duration = event.at("dur");
    EXPECT_GE(duration, 0);
    by_thread[{event["pid"], event["tid"]}].emplace_back(begin, begin + duration);
  }
  constexpr double kRounding = 0.002;  // microseconds: the file has nanoseconds
  for (auto& [thread, spans] : by_thread) {
    std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> ends;
    for (const auto& [begin, end] : spans) {
      while (!ends.empty() && ends.back() <= begin + kRounding) ends.pop_back();
      if (!ends.empty()) {
        EXPECT_LE(end, ends.back() + kRounding) << "rank " << thread.first << " thread " << thread.second;
      }
      ends.push_back(end);
    }
  }
}

TEST(ProfileReport, BringsAllRanksToRankZero) {
  std::string trace;
  std::vector<std::vector<std::string>> rows;
  run_ranks({"threads", 3}, [&](comm::Communicator& comm) {
    Profiler profiler(events_per_rank(comm.size()));
    {
      const ProfileSpan span(&profiler, "forward");
      std::this_thread::sleep_for(milliseconds(5 + 20 * comm.rank()));
    }
    {
      const ProfileSpan span(&profiler, "reduce");
      const auto now = Clock::now();
      // Transfers that overlap, and do not lie within each other.
      comm::GradientReducer::Timing timing;
      timing.wait_began = timing.wait_ended = now;
      timing.buckets = {{100, now - milliseconds(3), now - milliseconds(1)}, {200, now - milliseconds(2), now}};
      record_reduction(&profiler, timing);
    }
    std::thread([&] { const ProfileSpan span(&profiler, "plan", "bad \xff name"); }).join();
    const auto ranks = gather_profiles(profiler, comm);
    EXPECT_EQ(ranks.size(), comm.rank() == 0 ? 3u : 0u);
    if (comm.rank() != 0) return;
    trace = chrome_trace(ranks);
    rows = profile_rows(ranks);
  });
  const auto parsed = nlohmann::json::parse(trace);
  check_trace(parsed);
  std::map<std::string, std::set<int>> ranks_of;
  std::set<int> wires;
  for (const auto& event : parsed["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ranks_of[event["name"]].insert(event["pid"].get<int>());
    if (event["name"] == "reduce bucket") wires.insert(event["tid"].get<int>());
  }
  for (const char* name : {"forward", "reduce", "reduce wait", "reduce bucket", "plan"}) {
    EXPECT_EQ(ranks_of[name], (std::set<int>{0, 1, 2})) << name;
  }
  EXPECT_EQ(wires, (std::set<int>{kFirstWireThread, kFirstWireThread + 1})) << "overlapping transfers lie side by side";

  double share = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i][1] == "training") share += std::stod(rows[i][4]);
    if (rows[i][0] != "forward") continue;
    EXPECT_EQ(rows[i][2], "3");
    EXPECT_GE(std::stod(rows[i][7]), 0.005);
    EXPECT_GE(std::stod(rows[i][8]), 0.045);
    EXPECT_LT(std::stod(rows[i][7]), std::stod(rows[i][8]));
  }
  EXPECT_NEAR(share, 100, 1) << "the training threads' totals add up to the wall time";
}

TEST(ProfileReport, RanksShareTheLimit) {
  EXPECT_EQ(events_per_rank(1), Profiler::kMaxEvents);
  EXPECT_LE(512 * events_per_rank(512), 500000u);
  EXPECT_GE(events_per_rank(10'000'000), 1u);
}

TEST(StepMonitor, TellsExposureFromUnequalWork) {
  run_ranks({"threads", 3}, [](comm::Communicator& comm) {
    StepMonitor monitor;
    // Rank 2 comes last in the first step, rank 1 in the second.
    const std::vector<std::vector<double>> waits = {{0.030, 0.020, 0.004}, {0.010, 0.002, 0.050}};
    for (size_t step = 0; step < 2; ++step) {
      monitor.begin_step();
      monitor.working_on(comm.rank() == 1 ? "large" : "small");
      monitor.waited(waits[step][static_cast<size_t>(comm.rank())]);
      monitor.end_step();
    }
    const auto report = monitor.report(comm);
    EXPECT_EQ(report.steps, 2);
    EXPECT_NEAR(report.comm_exposed_ms, (4 + 2) / 2.0, 1e-5);
    EXPECT_NEAR(report.comm_wait_ms, (30 + 50) / 2.0, 1e-5);
    const auto next = monitor.report(comm);
    EXPECT_EQ(next.steps, 0) << "each step is reported once";
    EXPECT_EQ(next.comm_exposed_ms, 0);
  });
}

TEST(StepMonitor, NamesTheSlowestRankAndItsGroup) {
  run_ranks({"threads", 3}, [](comm::Communicator& comm) {
    StepMonitor monitor;
    for (int step = 0; step < 3; ++step) {
      monitor.begin_step();
      monitor.working_on("graph " + std::to_string(step));
      const bool slow = comm.rank() == 1;
      std::this_thread::sleep_for(milliseconds(slow && step == 1 ? 2000 : slow ? 400 : 5));
      monitor.end_step();
    }
    const auto report = monitor.report(comm);
    EXPECT_EQ(report.straggler_rank, 1);
    EXPECT_EQ(report.straggler_group, "graph 1");
    EXPECT_GT(report.straggler_ratio, 1.2);
    EXPECT_LE(report.straggler_ratio, 3.0);
    EXPECT_TRUE(is_straggling(report));
    EXPECT_THAT(describe_straggler(report), HasSubstr("rank 1 worked"));
    EXPECT_EQ(to_json(report).at("straggler_group"), "graph 1");
  });
}

/// Waits of one step by rank, on as many hosts as named.
StepReport report_of(const std::vector<std::vector<double>>& steps, const std::vector<std::string>& hosts) {
  StepReport result;
  run_ranks({"threads", static_cast<int>(hosts.size())}, [&](comm::Communicator& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    StepMonitor monitor(nullptr, hosts[rank]);
    for (const auto& waits : steps) {
      monitor.begin_step();
      monitor.waited(waits[rank]);
      monitor.end_step();
    }
    const auto report = monitor.report(comm);
    if (rank == 0) result = report;
  });
  return result;
}

TEST(StepMonitor, NamesTheHostThatAllOthersWaitFor) {
  // Both ranks of h2 come last in two of three steps; in the last one it was stopped while it waited, and nobody else
  // waited for anybody.
  const auto report = report_of({{0.030, 0.031, 0.001, 0.002, 0.032, 0.033},
                                 {0.040, 0.041, 0.001, 0.001, 0.021, 0.043},
                                 {0.001, 0.001, 0.300, 0.300, 0.002, 0.001}},
                                {"h1", "h1", "h2", "h2", "h3", "h3"});
  EXPECT_EQ(report.waited_for, "h2");
  EXPECT_NEAR(report.waited_for_ms, (29 + 20) / 3.0, 1e-3);
  EXPECT_NEAR(report.waited_for_share, 2 / 3.0, 1e-9);
  EXPECT_TRUE(is_waited_for(report));
  EXPECT_MESSAGE(describe_waited_for(report));
  EXPECT_EQ(to_json(report).at("waited_for"), "h2");
}

TEST(StepMonitor, OnOneHostNamesTheRankThatAllOthersWaitFor) {
  const auto report = report_of({{0.030, 0.001, 0.020}}, {"h", "h", "h"});
  EXPECT_EQ(report.waited_for, "rank 1");
  EXPECT_NEAR(report.waited_for_ms, 19, 1e-3);
  EXPECT_FALSE(report.link);
  EXPECT_EQ(report_of({{0.5}}, {"h"}).waited_for, "");
  EXPECT_EQ(report_of({{0.1, 0.1}}, {"h", "i"}).waited_for, "") << "together";
}

/// Only where communication takes a good part of the steps, on enough hosts to tell whose links they are, once a
/// minute.
TEST(StepMonitor, MeasuresLinksWhereCommunicationTakesLong) {
  const std::vector<std::vector<double>> exposed = {{0.1, 0.1, 0.1, 0.1}}, hidden = {{0.1, 0.1, 0.1, 0.0}};
  const auto report = report_of(exposed, {"h1", "h2", "h3", "h3"});
  ASSERT_TRUE(report.link);
  EXPECT_GT(report.link->ms, 0);
  EXPECT_GE(report.link->ms, report.link->others);
  EXPECT_TRUE(to_json(report).contains("slow_link"));
  EXPECT_FALSE(report_of(hidden, {"h1", "h2", "h3", "h3"}).link);
  EXPECT_FALSE(report_of(exposed, {"h1", "h2", "h2", "h2"}).link);
  run_ranks({"threads", 3}, [](comm::Communicator& comm) {
    StepMonitor monitor(nullptr, fmt::format("h{}", comm.rank()));
    for (const bool measured : {true, false}) {
      monitor.begin_step();
      monitor.waited(0.1);
      monitor.end_step();
      EXPECT_EQ(monitor.report(comm).link.has_value(), measured);
    }
  });
}

TEST(StepMonitor, ASlowLinkIsOneThatTakesTwiceAsLong) {
  StepReport report;
  report.link = LinkReport{.host = "h4", .ms = 21, .others = 10};
  EXPECT_TRUE(has_slow_link(report));
  EXPECT_MESSAGE(describe_slow_link(report));
  EXPECT_EQ(to_json(report).at("slow_link"), "h4");
  report.link->ms = 15;
  EXPECT_FALSE(has_slow_link(report));
  EXPECT_EQ(to_json(report).at("slow_link"), "");
}

TEST(StepMonitor, ARankWithoutWorkNamesNoGroup) {
  run_ranks({"threads", 1}, [](comm::Communicator& comm) {
    StepMonitor monitor;
    monitor.begin_step();
    monitor.end_step();
    const auto report = monitor.report(comm);
    EXPECT_EQ(report.straggler_group, "");
    EXPECT_EQ(report.straggler_ratio, 1.0);
    EXPECT_FALSE(is_straggling(report));
  });
}

}  // namespace
}  // namespace foretime::worker
