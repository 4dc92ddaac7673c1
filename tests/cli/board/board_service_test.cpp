#include "cli/board/board_service.h"

#include <filesystem>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "tests/support/scratch.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

/// The files of the machine; `before_open` is called before one is opened for reading.
class WatchedFiles final : public Files {
 public:
  explicit WatchedFiles(std::function<void()> before_open) : before_open_(std::move(before_open)) {}
  std::unique_ptr<InputFile> open_below(const Path& folder, const Path& name) override {
    before_open_();
    return real_files().open_below(folder, name);
  }
  bool exists_below(const Path& folder, const Path& name) override { return real_files().exists_below(folder, name); }
  std::unique_ptr<OutputFile> open(const Path& path, Open how) override { return real_files().open(path, how); }
  std::string read(const Path& path) override {
    before_open_();
    return real_files().read(path);
  }
  bool exists(const Path& path) override { return real_files().exists(path); }
  bool is_folder(const Path& path) override { return real_files().is_folder(path); }
  std::vector<Path> list(const Path& folder) override { return real_files().list(folder); }
  void create_folders(const Path& path) override { real_files().create_folders(path); }
  bool create_folder(const Path& path) override { return real_files().create_folder(path); }
  void rename(const Path& from, const Path& to) override { real_files().rename(from, to); }
  bool exchange(const Path& a, const Path& b) override { return real_files().exchange(a, b); }
  void remove(const Path& path) override { real_files().remove(path); }
  void sync_folder(const Path& path) override { real_files().sync_folder(path); }

 private:
  std::function<void()> before_open_;
};

class BoardServiceTest : public testing::ScratchTest {
 protected:
  void make_run(const std::string& name, int64_t lines = 3) const {
    std::filesystem::create_directories(folder_ / name);
    std::string text;
    for (int64_t step = 1; step <= lines; ++step)
      text += fmt::format("{{\"kind\":\"train\",\"step\":{},\"loss\":{},\"a/b\":{}}}\n", step, 0.5, step % 100);
    testing::write_text(folder_ / name / "metrics.jsonl", text);
    testing::write_text(folder_ / name / "config.yaml", "model: {hidden: 8}\n");
  }
  static Json ask(BoardService& service, const std::string& path, const std::string& name = "") {
    server::HttpRequest request;
    request.method = "GET";
    request.path = path;
    if (!name.empty()) request.query["name"] = name;
    const auto answer = service.answer(request);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }
};

// Promise redis/board: on the board, a slow file system or a long run delays only its own viewers; answers are bounded
TEST_F(BoardServiceTest, ASlowRunDelaysNobodyElse) {
  make_run("slow");
  make_run("other");
  BoardService service(nullptr, folder_, {});
  std::latch begun(1), goes_on(1);
  std::jthread slow([&] {
    bool first = true;
    WatchedFiles watched([&] {
      if (!std::exchange(first, false)) return;
      begun.count_down();
      goes_on.wait();
    });
    const FilesScope scope(watched);
    EXPECT_EQ(ask(service, "/api/run", "slow")["history"]["loss"]["steps"].size(), 3U);
  });
  begun.wait();
  EXPECT_EQ(ask(service, "/api/board")["actions"], false);
  EXPECT_EQ(ask(service, "/api/runs")["total"], 2);
  EXPECT_EQ(ask(service, "/api/run", "other")["history"]["loss"]["steps"].size(), 3U);
  goes_on.count_down();
}

/// A page draws about 2,000 points, however long a run is.
// Promise redis/board
TEST_F(BoardServiceTest, LongHistoriesAreThinned) {
  constexpr int64_t kSteps = 100'000;
  make_run("long", kSteps);
  BoardService service(nullptr, folder_, {});
  const auto run = ask(service, "/api/run", "long");
  EXPECT_LT(run.dump().size(), 200'000U);
  for (const auto* name : {"loss", "a/b"}) {
    const auto steps = run["history"][name]["steps"].get<std::vector<int64_t>>();
    const auto values = run["history"][name]["values"].get<std::vector<double>>();
    EXPECT_LE(steps.size(), 2000U);
    EXPECT_GE(steps.size(), 900U);
    EXPECT_EQ(steps.front(), 1);
    EXPECT_EQ(steps.back(), kSteps);
    for (size_t i = 1; i < steps.size(); ++i) ASSERT_LT(steps[i] - steps[i - 1], 2 * kSteps / 900);
    for (size_t i = 0; i < steps.size(); ++i)
      ASSERT_EQ(values[i], std::string(name) == "loss" ? 0.5 : static_cast<double>(steps[i] % 100));
  }
}

/// Also one that has very many series.
TEST_F(BoardServiceTest, AnAnswerIsBounded) {
  std::filesystem::create_directories(folder_ / "wide");
  std::string text, values;
  for (int i = 0; i < 500; ++i) values += fmt::format(",\"series {}\":{}", i, i);
  for (int64_t step = 1; step <= 1500; ++step)
    text += fmt::format("{{\"kind\":\"train\",\"step\":{}{}}}\n", step, values);
  testing::write_text(folder_ / "wide" / "metrics.jsonl", text);
  BoardService service(nullptr, folder_, {});
  const auto run = ask(service, "/api/run", "wide");
  size_t points = 0;
  for (const auto& series : run["history"]) points += series["steps"].size();
  EXPECT_EQ(run["history"].size(), 500U);
  EXPECT_LE(points, 200'000U);
  EXPECT_GE(points, 90'000U);
}

}  // namespace
}  // namespace foretime::cli
