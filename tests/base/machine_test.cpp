#include "base/machine/machine.h"

#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "base/machine/rates.h"
#include "tests/support/scratch.h"

namespace foretime {
namespace {

class MachineFactsTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const auto file = scratch_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  MachineFacts read(const std::vector<int>& cpus) { return read_machine(scratch_.path(), cpus); }

  testing::Scratch scratch_;
};

TEST_F(MachineFactsTest, OfAnX86WithHyperThreads) {
  write("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Other\nflags\t\t: sse\n\nprocessor\t: 1\nmodel name\t: Intel(R) Xeon(R)\ncpu "
        "family\t: 6\nmodel\t\t: 143\ncpu MHz\t\t: 2100.5\nflags\t\t: fpu sse sse2 avx avx2 fma avx512f\n");
  const std::string cpu = "sys/devices/system/cpu/cpu";
  for (const int number : {1, 2, 3, 5}) {
    const auto own = cpu + std::to_string(number);
    write(own + "/topology/core_id", std::to_string(number / 2) + "\n");  // 2 and 3 are one core
    write(own + "/topology/physical_package_id", "0\n");
  }
  const auto cache = [&](int index, int level, const char* type, const char* size) {
    const auto own = cpu + "1/cache/index" + std::to_string(index);
    write(own + "/level", std::to_string(level) + "\n");
    write(own + "/type", std::string(type) + "\n");
    write(own + "/size", std::string(size) + "\n");
    write(own + "/coherency_line_size", "64\n");
  };
  cache(0, 1, "Data", "48K");
  cache(1, 1, "Instruction", "32K");
  cache(2, 2, "Unified", "2048K");
  cache(3, 3, "Unified", "105M");
  cache(4, 4, "Unified", "1024M");  // main memory in front of others, which a model has no column for
  write(cpu + "1/cpufreq/base_frequency", "2000000\n");
  write(cpu + "1/cpufreq/cpuinfo_max_freq", "3800000\n");

  const auto facts = read({1, 2, 3, 5});
  EXPECT_EQ(facts.cpu, "Intel(R) Xeon(R)");
  EXPECT_EQ(facts.family, 6);
  EXPECT_EQ(facts.model, 143);
  EXPECT_EQ(facts.vector_bytes, 64);
  EXPECT_EQ(facts.vector_registers, 32);
  EXPECT_EQ(facts.threads, 4);
  EXPECT_EQ(facts.cores, 3);
  EXPECT_EQ(facts.caches.l1, 48 * 1024);
  EXPECT_EQ(facts.caches.l2, 2048 * 1024);
  EXPECT_EQ(facts.caches.l3, 105 * 1024 * 1024);
  EXPECT_EQ(facts.caches.line, 64);
  EXPECT_EQ(facts.clock.now, 2100.5);
  EXPECT_EQ(facts.clock.base, 2000);
  EXPECT_EQ(facts.clock.highest, 3800);
}

TEST_F(MachineFactsTest, VectorsOfOtherProcessors) {
  const auto vectors = [&](const std::string& line) {
    write("proc/cpuinfo", "processor : 0\n" + line + "\n");
    const auto facts = read({0});
    return std::pair(facts.vector_bytes, facts.vector_registers);
  };
  EXPECT_EQ(vectors("flags : sse sse2"), std::pair(int64_t{16}, int64_t{16}));
  EXPECT_EQ(vectors("flags : sse avx2"), std::pair(int64_t{32}, int64_t{16}));
  EXPECT_EQ(vectors("Features : fp asimd sve"), std::pair(int64_t{16}, int64_t{32}));
  EXPECT_EQ(vectors("isa : rv64"), std::pair(int64_t{4}, int64_t{1}));
}

TEST_F(MachineFactsTest, WhatIsNotSaidIsAbsent) {
  const auto facts = read({0, 1});
  EXPECT_EQ(facts.cpu, "");
  EXPECT_EQ(facts.cores, 2);  // without a topology each CPU counts
  EXPECT_FALSE(facts.caches.l1 || facts.caches.l2 || facts.caches.l3 || facts.caches.line);
  EXPECT_FALSE(facts.clock.now || facts.clock.base || facts.clock.highest || facts.family || facts.model);
}

TEST(Machine, NumbersOfTheKernel) {
  EXPECT_EQ(cache_bytes("48K\n"), 48 * 1024);
  EXPECT_EQ(cache_bytes("512"), 512);
  for (const char* text : {"", "K", "48G", "-1K", "0", "4.5M", "99999999999999999K"})
    EXPECT_EQ(cache_bytes(text), std::nullopt) << text;
  // user + nice + system + irq + softirq + steal, in ticks
  EXPECT_EQ(busy_seconds("cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 1 1 1\n", 100), 1.71);
  EXPECT_EQ(busy_seconds("cpu  100 20 30\n", 100), std::nullopt);
  EXPECT_EQ(busy_seconds("intr 1 2 3\n", 100), std::nullopt);
  EXPECT_EQ(available_memory("MemTotal:  100 kB\nMemAvailable:   48 kB\nBuffers: 1 kB\n"), 48 * 1024);
  EXPECT_EQ(available_memory("MemTotal:  100 kB\n"), std::nullopt);
}

TEST(OomKills, AreReadOfBothVersionsOfCgroups) {
  const testing::Scratch root;
  const auto write = [&](const std::string& name, const std::string& text) {
    const auto path = root.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  EXPECT_EQ(oom_kills(root.path()), std::nullopt);
  write("proc/self/cgroup", "0::/jobs/7\n");
  EXPECT_EQ(oom_kills(root.path()), std::nullopt);
  write("sys/fs/cgroup/jobs/7/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
  EXPECT_EQ(oom_kills(root.path()), 3);
  write("proc/self/cgroup", "11:cpu,cpuacct:/a\n4:memory:/slurm/job_3\n");
  write("sys/fs/cgroup/memory/slurm/job_3/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(oom_kills(root.path()), 2);
}

TEST(Rates, RunsAreSummarised) {
  const auto odd = summarize({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.low, 1);
  EXPECT_EQ(odd.high, 3);
  EXPECT_EQ(odd.spread, 1);
  EXPECT_EQ(odd.runs, 3);
  EXPECT_EQ(summarize({4, 1, 2, 8}).median, 3);
  EXPECT_EQ(summarize({5}).spread, 0);
  EXPECT_EQ(repetitions_for(0.03, 0.1), 4);
  EXPECT_EQ(repetitions_for(1, 0.1), 1);
  EXPECT_GT(repetitions_for(0, 0.1), 1'000'000);  // a clock that saw no time
}

/// The loop that is timed does what the rate says: all of its multiply-adds, in the widest vectors of this machine.
TEST(Rates, MultiplyAddsAreDone) {
  for (const int64_t rounds : {0, 1, 2, 5}) {
    float sum = -1;
    const auto operations = run_multiply_adds(rounds, sum);
    EXPECT_FLOAT_EQ(sum, multiply_adds_by_definition(rounds)) << rounds;
    EXPECT_EQ(operations, static_cast<double>(rounds) * run_multiply_adds(1, sum));
  }
  float ignored = 0;
  const auto vectors = read_machine("/", usable_cpus()).vector_bytes;
  EXPECT_EQ(run_multiply_adds(1, ignored), 2.0 * 12 * static_cast<double>(vectors) / sizeof(float));
}

TEST(Rates, AreOfAllThreadsTogether) {
  const RateOptions one{.cpus = {usable_cpus().front()}, .runs = 3, .seconds = 0.002, .copy_bytes = 1 << 20};
  auto two = one;
  two.cpus.push_back(usable_cpus().back());
  for (const auto& options : {one, two}) {
    for (const auto& rates : {multiply_add_rates(options), copy_rates(options)}) {
      ASSERT_EQ(rates.size(), 3U);
      for (const double rate : rates) {
        EXPECT_GT(rate, 1e6);
        EXPECT_LT(rate, 1e15);
      }
    }
  }
  auto large = one;
  large.copy_bytes = int64_t{1} << 60;
  EXPECT_THROW(copy_rates(large), std::bad_alloc);
}

}  // namespace
}  // namespace foretime
