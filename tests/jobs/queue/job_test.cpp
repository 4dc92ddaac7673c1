#include "jobs/queue/job.h"

#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "jobs/error.h"
#include "jobs/queue/job_hash.h"

namespace foretime::jobs {
namespace {

JobSpec example() { return {.settings = "model: {hidden: 32}", .parameters = {{"model.hidden", "32"}}}; }

TEST(Job, IdFollowsWhatShapesTheResultAndNothingElse) {
  const auto id = job_id(example());
  EXPECT_EQ(id.size(), 16U);
  auto same = example();
  same.name = "other";
  same.priority = 7;
  same.max_attempts = 9;
  same.resources.ranks = 4;
  EXPECT_EQ(job_id(same), id);

  std::set<std::string> ids = {id};
  const auto differs = [&](auto change) {
    auto spec = example();
    change(spec);
    EXPECT_TRUE(ids.insert(job_id(spec)).second);
  };
  differs([](JobSpec& s) { s.kind = JobKind::evaluate; });
  differs([](JobSpec& s) { s.sweep = "a"; });
  differs([](JobSpec& s) { s.trial = 3; });
  differs([](JobSpec& s) { s.settings += " "; });
  differs([](JobSpec& s) { s.parameters["model.hidden"] = "33"; });
  differs([](JobSpec& s) { s.after = {"0123456789abcdef"}; });
}

TEST(Job, ContentIdIsSha256) { EXPECT_EQ(content_id("abc"), "ba7816bf8f01cfea"); }

TEST(Job, NamesRoundTrip) {
  for (const auto state : {JobState::blocked, JobState::waiting, JobState::delayed, JobState::held, JobState::active,
                           JobState::succeeded, JobState::failed, JobState::cancelled, JobState::dead})
    EXPECT_EQ(parse_job_state(to_string(state)), state);
  EXPECT_EQ(parse_job_kind("export"), JobKind::export_);
  EXPECT_THROW(parse_job_state("done"), JobsError);
}

/// As Redis' own cmsgpack writes an array of strings, whatever their sizes.
TEST(PackedFields, AreReadWholeOrRefused) {
  Fields fields = {{"", "empty name"}};
  for (const size_t size : {0, 1, 31, 32, 255, 256, 65535, 65536})
    fields[fmt::format("size {}", size)] = std::string(size, '\xff');
  auto list = nlohmann::json::array();
  for (const auto& [name, value] : fields) list.insert(list.end(), {name, value});
  std::string packed;
  nlohmann::json::to_msgpack(list, packed);
  EXPECT_EQ(packed_fields(packed), fields);
  for (size_t size = 0; size + 1 < packed.size(); size += 1 + size / 16)
    EXPECT_THROW(packed_fields(packed.substr(0, size)), RedisUnavailable) << size;
  EXPECT_THROW(packed_fields("ok"), RedisUnavailable);
  EXPECT_THROW(packed_fields("\x92\x01\x02"), RedisUnavailable) << "numbers";
  EXPECT_EQ(packed_fields("\x90"), Fields());
}

}  // namespace
}  // namespace foretime::jobs
