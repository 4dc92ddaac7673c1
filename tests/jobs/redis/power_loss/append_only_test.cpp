#include "jobs/redis/append_only.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace foretime::jobs {
namespace {

// What Redis 7.0 writes after a rewrite, before it has removed what that replaced.
constexpr char kRewritten[] =
    "file appendonly.aof.2.base.rdb seq 2 type b\n"
    "file appendonly.aof.1.base.rdb seq 1 type h\n"
    "file appendonly.aof.2.incr.aof seq 2 type h\n"
    "file appendonly.aof.1.incr.aof seq 1 type h\n"
    "file appendonly.aof.3.incr.aof seq 3 type i\n";

std::string mended_text(const std::string& text, const std::set<std::string>& there) {
  const auto found =
      repaired_manifest(parse_manifest(text).value(), [&](const auto& name) { return there.count(name) != 0; });
  return found ? manifest_text(*found) : "unchanged";
}

TEST(AppendOnlyManifest, IsWrittenAsItWasRead) {
  EXPECT_EQ(manifest_text(parse_manifest(kRewritten).value()), kRewritten);
  EXPECT_TRUE(parse_manifest("# a comment of Redis\n").value().empty());
  for (const auto* text : {"file a seq 1 type x\n", "file a seq 0 type i\n", "file ../a seq 1 type i\n",
                           "file a seq 1 type i more\n", "file a seq 1\n", "seq 1 file a type i\n", "\n"})
    EXPECT_FALSE(parse_manifest(text)) << text;
}

TEST(AppendOnlyManifest, WhoseBaseIsMissingNamesWhatItReplaced) {
  const std::set<std::string> all = {"appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof",
                                     "appendonly.aof.2.incr.aof", "appendonly.aof.3.incr.aof"};
  EXPECT_EQ(mended_text(kRewritten, all),
            "file appendonly.aof.1.base.rdb seq 1 type b\n"
            "file appendonly.aof.1.incr.aof seq 1 type i\n"
            "file appendonly.aof.2.incr.aof seq 2 type i\n"
            "file appendonly.aof.3.incr.aof seq 3 type i\n");
  for (const auto& missing : {"appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof", "appendonly.aof.2.incr.aof"}) {
    auto some = all;
    some.erase(missing);
    EXPECT_EQ(mended_text(kRewritten, some), "unchanged") << missing;
  }
  auto with_base = all;
  with_base.insert("appendonly.aof.2.base.rdb");
  EXPECT_EQ(mended_text(kRewritten, with_base), "unchanged");
}

TEST(AppendOnlyManifest, WhosePartsHaveAGapIsLeftToRedis) {
  EXPECT_EQ(mended_text("file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.1.incr.aof seq 1 type h\n"
                        "file appendonly.aof.3.incr.aof seq 3 type i\n",
                        {"appendonly.aof.1.incr.aof", "appendonly.aof.3.incr.aof"}),
            "unchanged");
  EXPECT_EQ(mended_text("file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.2.incr.aof seq 2 type h\n"
                        "file appendonly.aof.3.incr.aof seq 3 type i\n",
                        {"appendonly.aof.2.incr.aof", "appendonly.aof.3.incr.aof"}),
            "unchanged");
  EXPECT_EQ(mended_text("file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n",
                        {"appendonly.aof.1.incr.aof"}),
            "unchanged");
}

TEST(AppendOnlyManifest, LeavesOutTheIncrementThatARewriteHasJustOpened) {
  const std::string begun =
      "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
      "file appendonly.aof.2.incr.aof seq 2 type i\n";
  EXPECT_EQ(mended_text(begun, {"appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof"}),
            "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n");
  // The only one is never missing after a loss of power; something else happened.
  EXPECT_EQ(mended_text("file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n",
                        {"appendonly.aof.1.base.rdb"}),
            "unchanged");
}

std::string text_of_files(const std::vector<std::string>& names) {
  const auto manifest = manifest_of_files(names);
  return manifest ? manifest_text(*manifest) : "none";
}

TEST(AppendOnlyManifest, ThatWasLostIsMadeOfFilesThatFollowEachOther) {
  EXPECT_EQ(text_of_files({"appendonly.aof.3.incr.aof", "appendonly.aof.10.incr.aof"}), "none");
  EXPECT_EQ(text_of_files({"appendonly.aof.2.base.rdb", "appendonly.aof.10.incr.aof", "appendonly.aof.9.incr.aof"}),
            "file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.9.incr.aof seq 9 type i\n"
            "file appendonly.aof.10.incr.aof seq 10 type i\n");
  EXPECT_EQ(text_of_files({"appendonly.aof.1.incr.aof"}), "file appendonly.aof.1.incr.aof seq 1 type i\n");
  EXPECT_EQ(text_of_files({"appendonly.aof.2.incr.aof"}), "none") << "what came before it is missing";
  EXPECT_EQ(text_of_files({}), "");
  for (const auto* name : {"appendonly.aof.x.incr.aof", "appendonly.aof.1.incr.txt", "other.aof", "appendonly.aof.",
                           "appendonly.aof.0.incr.aof", "appendonly.aof.99999999999999999999.incr.aof"})
    EXPECT_EQ(text_of_files({name}), "none") << name;
}

}  // namespace
}  // namespace foretime::jobs
