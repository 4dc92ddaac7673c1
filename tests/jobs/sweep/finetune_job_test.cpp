#include "jobs/sweep/finetune_job.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FinetuneJobTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& yaml) {
    const auto file = scratch_.path() / "round.yaml";
    std::ofstream(file) << yaml;
    return file;
  }
  JobSpec read(const std::string& yaml, const std::vector<std::string>& overrides = {}, const std::string& name = "") {
    return finetune_job(std::get<FinetuneFile>(read_submission(write(yaml))), overrides, name);
  }
  std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    return testing::message_of<Error>([&] { read(yaml, overrides); });
  }

  testing::Scratch scratch_;
};

TEST_F(FinetuneJobTest, SaysAllThatTheCommandTakes) {
  const auto spec = read(
      "name: third round\n"
      "finetune:\n  model: base.foretime\n  records: [a.json, 'round*.json']\n  dags: dags.jsonl\n"
      "  member: lowered\n  replay: old.foretime\n  steps: 20\n  learning_rate: 1.0e-4\n  holdout: 0.25\n  tolerance: "
      "0\n  seed: 7\n"
      "  licence: 'MIT, \"as is\"'\n  take_worse: true\n");
  EXPECT_EQ(spec.kind, JobKind::finetune);
  EXPECT_EQ(spec.name, "third round");
  EXPECT_EQ(spec.metric, "holdout/kendall_tau");
  EXPECT_TRUE(spec.maximize);
  EXPECT_EQ(spec.resources.ranks, 1);
  EXPECT_EQ(parse_finetune(spec), (FinetuneSettings{{"model", {"base.foretime"}},
                                                    {"records", {"a.json", "round*.json"}},
                                                    {"dags", {"dags.jsonl"}},
                                                    {"member", {"lowered"}},
                                                    {"replay", {"old.foretime"}},
                                                    {"steps", {"20"}},
                                                    {"learning_rate", {"0.0001"}},
                                                    {"holdout", {"0.25"}},
                                                    {"tolerance", {"0"}},
                                                    {"seed", {"7"}},
                                                    {"licence", {"MIT, \"as is\""}},
                                                    {"take_worse", {"true"}}}));
}

TEST_F(FinetuneJobTest, TheIdIsThatOfWhatItDoes) {
  const std::string yaml = "finetune: {model: m, records: r}\n";
  const auto spec = read(yaml);
  EXPECT_EQ(spec.name, "round");
  EXPECT_EQ(read("name: other\n" + yaml).id, spec.id);
  EXPECT_EQ(read("finetune: {records: [r], model: m}\n").id, spec.id);
  EXPECT_NE(read(yaml, {"steps=10"}).id, spec.id);
  EXPECT_EQ(read(yaml, {"steps=10"}).id, read("finetune: {model: m, records: r, steps: 10}\n").id);
  EXPECT_EQ(parse_finetune(read(yaml, {"records=[a, b]"})).at("records").size(), 2u);
  const auto after = read("after: 0123abcd\nfinetune: {records: r}\n", {}, "named");
  EXPECT_THAT(after.after, ElementsAre("0123abcd"));
  EXPECT_EQ(after.name, "named");
}

TEST_F(FinetuneJobTest, RefusesWhatIsWrongByPlace) {
  const std::string file = (scratch_.path() / "round.yaml").string();
  EXPECT_MESSAGE(error_of("finetune:\n  model: m\n  recods: [r]\n"), file);
  EXPECT_MESSAGE(error_of("finetune: {model: m}\n"));
  EXPECT_MESSAGE(error_of("finetune: {records: r}\n"));
  EXPECT_THAT(error_of("after: a\nfinetune: {model: m, records: r}\n"), HasSubstr("finetune.model and after"));
  EXPECT_MESSAGE(error_of("after: a b\nfinetune: {records: r}\n"));
  EXPECT_THAT(error_of("finetune: {model: m, records: r, steps: 0}\n"), HasSubstr("finetune.steps: found 0"));
  EXPECT_THAT(error_of("finetune: {model: m, records: r, steps: many}\n"), HasSubstr("finetune.steps: found 'many'"));
  EXPECT_MESSAGE(error_of("finetune: {model: m, records: r, holdout: 1}\n"));
  EXPECT_THAT(error_of("finetune: {model: m, records: r, learning_rate: -1}\n"), HasSubstr("found -1, expected > 0"));
  EXPECT_THAT(error_of("finetune: {model: m, records: r, tolerance: -1}\n"), HasSubstr("found -1, expected >= 0"));
  EXPECT_MESSAGE(error_of("finetune: {model: m, records: {a: b}}\n"));
  EXPECT_MESSAGE(error_of("finetune: [1]\n"));
  EXPECT_MESSAGE(error_of("finetune: {model: m, records: r}\nsteps: 3\n"), "steps");
  EXPECT_THAT(error_of("finetune: {model: m, records: r}\n", {"step=3"}), HasSubstr("override step=3: expected"));
  EXPECT_MESSAGE(error_of("finetune: {model: m, records: r}\n", {"steps=x"}), "override steps=x: steps");
}

TEST_F(FinetuneJobTest, IsToldFromSettingsAndSweeps) {
  EXPECT_TRUE(std::holds_alternative<FinetuneFile>(read_submission(write("finetune: {}\n"))));
  EXPECT_TRUE(std::holds_alternative<SweepFile>(read_submission(write("method: grid\n"))));
  EXPECT_TRUE(std::holds_alternative<TrainingFile>(read_submission(write("[\n"))));
  EXPECT_THROW(read_submission("no-such-file"), SweepError);
}

}  // namespace
}  // namespace foretime::jobs
