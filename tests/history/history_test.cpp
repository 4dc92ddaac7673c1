#include "history/history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "history/run_history.h"
#include "tests/support/scratch.h"

namespace foretime::history {
namespace {

History example(int64_t steps, int64_t every_evaluation) {
  History history;
  for (int64_t step = 10; step <= steps; step += 10) {
    history.add(step, {{"loss", 1.0 / static_cast<double>(step)}, {"learning_rate", 1e-3}});
    if (step % every_evaluation == 0)
      history.add(step, {{"valid/kendall_tau", 0.5 + 1e-4 * static_cast<double>(step)}});
  }
  return history;
}

TEST(History, AResumedTrainingHasNoStepTwice) {
  History history;
  for (int64_t step = 1; step <= 9; ++step) history.add(step, {{"loss", static_cast<double>(step)}});
  history.add(6, {{"valid/opa", 0.6}});  // of the steps that are done again, nothing stays
  for (int64_t step = 7; step <= 8; ++step) history.add(step, {{"loss", 10.0 * static_cast<double>(step)}});
  history.add(8, {{"valid/opa", 0.8}});
  const auto& loss = history.series().at("loss");
  ASSERT_EQ(loss.size(), 8U);
  for (size_t i = 0; i < loss.size(); ++i) EXPECT_EQ(loss[i].step, static_cast<int64_t>(i) + 1);
  EXPECT_EQ(loss[5].value, 6);
  EXPECT_EQ(loss[6].value, 70);
  EXPECT_EQ(history.series().at("valid/opa"), (Series{{6, 0.6}, {8, 0.8}}));
  EXPECT_EQ(history.last_step(), 8);
}

TEST(History, ASeriesThatHasNoPointLeftIsGone) {
  History history;
  history.add(5, {{"loss", 1}});
  history.add(10, {{"valid/opa", 1}});
  history.add(3, {{"loss", 2}});
  EXPECT_FALSE(history.series().contains("valid/opa"));
  EXPECT_EQ(history.series().at("loss"), (Series{{3, 2}}));
}

TEST(History, ForgetsASeriesFromAStepOn) {
  History history;
  for (int64_t step = 1; step <= 3; ++step) history.add(step, {{"loss", 1.0}, {"rate", 2.0}});
  history.remove_points("loss", 2);
  history.remove_points("nothing", 0);
  EXPECT_EQ(history.series().at("loss"), (Series{{1, 1}}));
  EXPECT_EQ(history.series().at("rate").size(), 3U);
  history.remove_points("loss", 0);
  EXPECT_FALSE(history.series().contains("loss"));
}

TEST(History, ABoundedOneLosesPoints) {
  History history(64);
  for (int64_t step = 1; step <= 10'000; ++step) history.add(step, {{"loss", 1.0 / static_cast<double>(step)}});
  const auto& loss = history.series().at("loss");
  EXPECT_LE(loss.size(), 64U);
  EXPECT_GE(loss.size(), 31U);
  EXPECT_EQ(loss.front().step, 1);
  for (const auto& [step, value] : loss) EXPECT_EQ(value, 1.0 / static_cast<double>(step));
}

/// The points that are left of a long training are not those of its end alone.
TEST(History, ABoundedOneHasPointsAtEqualDistances) {
  for (const size_t most : {2, 3, 5, 64, 100}) {
    History history(most);
    for (int64_t step = 1; step <= 50'000; ++step) {
      history.add(step, {{"loss", static_cast<double>(step)}});
      const auto& loss = history.series().at("loss");
      ASSERT_LE(loss.size(), most) << step;
      ASSERT_EQ(loss.front(), (Point{1, 1}));
      ASSERT_EQ(loss.back(), (Point{step, static_cast<double>(step)}));
      const auto distance = std::max<int64_t>(1, step / static_cast<int64_t>(most));
      for (size_t i = 1; i < loss.size(); ++i) {
        if (i + 1 < loss.size()) {
          ASSERT_GE(loss[i].step - loss[i - 1].step, distance) << step;
        }
        ASSERT_LE(loss[i].step - loss[i - 1].step, 4 * distance) << step;
      }
    }
  }
}

/// A training that is resumed, again and again, with and without a bound.
TEST(History, ABoundedOneRewinds) {
  std::mt19937 random(7);
  for (int repeat = 0; repeat < 200; ++repeat) {
    History bounded(8), whole;
    int64_t step = 0;
    for (int i = 0; i < 200; ++i) {
      step = random() % 20 == 0 ? static_cast<int64_t>(random() % (step + 1)) : step + 1 + random() % 3;
      const std::map<std::string, double> values = {{"loss", static_cast<double>(i)}};
      bounded.add(step, values);
      whole.add(step, values);
      if (random() % 50 == 0) {
        bounded.remove_points("loss", step / 2);
        whole.remove_points("loss", step / 2);
        ASSERT_EQ(bounded.empty(), whole.empty());
        if (whole.empty()) continue;
      }
      const auto &some = bounded.series().at("loss"), &all = whole.series().at("loss");
      ASSERT_LE(some.size(), 8U);
      ASSERT_EQ(some.front(), all.front());
      ASSERT_TRUE(std::ranges::includes(all, some, {}, &Point::step, &Point::step));
      for (const auto& point : some) ASSERT_TRUE(std::ranges::find(all, point) != all.end());
    }
    EXPECT_EQ(bounded.last_step(), whole.last_step());
  }
}

TEST(History, ThinnedKeepsTheEnds) {
  const auto series = example(1000, 100).series().at("loss");
  for (size_t most : {1, 2, 3, 7, 50, 99, 100, 1000}) {
    const auto some = thinned(series, most);
    EXPECT_LE(some.size(), most);
    EXPECT_GE(some.size(), std::min(series.size(), most) / 2);
    EXPECT_EQ(some.back(), series.back());
    if (most > 1) {
      EXPECT_EQ(some.front(), series.front());
    }
  }
  EXPECT_TRUE(thinned(series, 0).empty());
}

TEST(PackedHistory, KeepsNumbersOfFourDigitsWhole) {
  History history;
  history.add(0, {{"loss", 0.1234}, {"valid/opa", 1}});
  history.add(10, {{"loss", -12.5}, {"valid/opa", 0.001}});
  history.add(20, {{"loss", 6.02e23}});
  history.add(21, {{"loss", 0}});
  history.add(22, {{"loss", std::numeric_limits<double>::infinity()}});
  history.add(23, {{"loss", -std::numeric_limits<double>::infinity()}});
  const auto text = pack(history, {});
  EXPECT_EQ(unpack(text), history) << text;
  EXPECT_EQ(pack(unpack(text), {}), text);
  EXPECT_TRUE(text.starts_with("loss 0+10x2+1x3 ")) << text;
}

TEST(PackedHistory, RoundsToTheBitsThatItKeeps) {
  for (const auto& [digits, error] : {std::pair{4, std::ldexp(1, -15)}, std::pair{3, std::ldexp(1, -9)}}) {
    History history;
    for (int64_t step = 0; step < 2000; ++step)
      history.add(step, {{"loss", std::pow(1.013, static_cast<double>(step) - 900) * (step % 2 == 0 ? 1 : -1)}});
    const auto found = unpack(pack(history, {.bytes = 1 << 20, .digits = digits})).series().at("loss");
    const auto& expected = history.series().at("loss");
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i].value / expected[i].value, 1, error * 1.001) << expected[i].value;
  }
  History history;
  history.add(1, {{"loss", std::nan("")}});
  EXPECT_TRUE(std::isnan(unpack(pack(history, {})).series().at("loss")[0].value));
}

TEST(PackedHistory, FitsAndPrefersTheFirstSeries) {
  const auto history = example(100'000, 1000);
  for (const size_t bytes : {60, 100, 200, 400, 1000, 8192, 1 << 20}) {
    const auto text = pack(history, {.bytes = bytes, .digits = 4, .first = {"valid/kendall_tau", "loss"}});
    EXPECT_LE(text.size(), bytes);
    EXPECT_GT(text.size(), std::min<size_t>(bytes, 40000) / 2) << bytes;
    const auto found = unpack(text);
    const auto& metric = found.series().at("valid/kendall_tau");
    EXPECT_EQ(metric.back().step, 100'000);
    if (bytes >= 8192) {
      EXPECT_EQ(metric.size(), 100U) << "every evaluation";
    }
    if (bytes >= 200) {
      EXPECT_TRUE(found.series().contains("loss"));
    }
  }
  EXPECT_EQ(pack(History(), {}), "");
  EXPECT_EQ(unpack("").last_step(), -1);
  EXPECT_EQ(unpack(pack(history, {.first = {"loss"}, .others = false})).series().size(), 1U);
}

TEST(PackedHistory, AShortOneIsWhole) {
  History history;
  for (int64_t step = 1; step < 5; ++step) {
    history.add(step, {{"loss", 1}, {"memory_mib", 2}, {"valid/opa", 3}});
    EXPECT_EQ(unpack(pack(history, {})), history);
  }
}

TEST(PackedHistory, NamesMayBeAnyBytes) {
  History history;
  const std::string name = "a b%\n<script>é\x01";
  history.add(1, {{name, 1}, {"", 2}});
  const auto text = pack(history, {.first = {name}, .others = false});
  EXPECT_EQ(text.find(' '), text.find(" 1 "));
  EXPECT_TRUE(unpack(text).series().contains(name));
}

TEST(PackedHistory, DamageIsRefused) {
  for (const char* text :
       {"loss", "loss 1 AAAA", "loss 1\n", "loss 1 \n", "loss  AAAA\n", "loss 1 AAA*\n", "loss 1+0 AAAAAAAA\n",
        "loss 1+1x9 AAAA\n", "loss 1+1x99999999999 AAAA\n", "loss -1 AAAA\n", "%4 1 AAAA\n", "%ZZ 1 AAAA\n",
        "loss 1+9007199254740992x2 AAAAAAAAAAAA\n", "loss 1 A\n", "loss 99999999999999999999 AAAA\n"})
    EXPECT_THROW(unpack(text), HistoryError) << text;
}

TEST(History, CsvHasOneLineForEachStep) {
  History history;
  history.add(10, {{"loss", 0.5}, {"a,b", 2}});
  history.add(15, {{"valid/opa", 0.75}});
  history.add(20, {{"loss", 0.25}});
  EXPECT_EQ(to_csv(history), "step,\"a,b\",loss,valid/opa\n10,2,0.5,\n15,,,0.75\n20,,0.25,\n");
  EXPECT_EQ(to_json(history)["loss"].dump(), R"({"steps":[10,20],"values":[0.5,0.25]})");
}

TEST(RunHistory, AttemptsOfAJobAreOneSeries) {
  const testing::Scratch folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    testing::write_text(folder.path() / name, text);
  };
  EXPECT_FALSE(is_run(folder.path()));
  EXPECT_THROW(read_run(folder.path()), HistoryError);
  write(
      "attempt-1/metrics.jsonl",
      "{\"kind\":\"train\",\"step\":10,\"loss\":3,\"straggler_rank\":0,\"waited_for\":\"\"}\n"
      "{\"kind\":\"eval\",\"step\":10,\"valid/opa\":0.5}\n{\"kind\":\"train\",\"step\":20,\"loss\":9}\n{\"kind\":\"tr");
  write("attempt-2/output.log", "it did not start");
  write("attempt-10/metrics.jsonl",
        "{\"kind\":\"train\",\"step\":15,\"loss\":2}\n{\"kind\":\"train\",\"step\":20,\"loss\":1}\n"
        "{\"kind\":\"final\",\"step\":20,\"valid/opa\":1}\n{\"kind\":\"train\",\"step\":-1,\"loss\":1}\n");
  EXPECT_TRUE(is_run(folder.path()));
  const auto found = read_run(folder.path());
  EXPECT_EQ(found.series().at("loss"), (Series{{10, 3}, {15, 2}, {20, 1}}));
  EXPECT_EQ(found.series().at("valid/opa"), (Series{{10, 0.5}}));
  EXPECT_EQ(found.series().size(), 2U);
  EXPECT_EQ(read_run(folder.path() / "attempt-1").series().at("loss").size(), 2U);
}

}  // namespace
}  // namespace foretime::history
