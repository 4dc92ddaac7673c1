#include "jobs/agent/allowed_roots.h"

#include <cerrno>
#include <fstream>

#include <gmock/gmock.h>

#include "base/files.h"
#include "jobs/error.h"
#include "tests/support/failing_calls.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// root/in/file, root/link -> in, outside/secret, and links that lead out.
class AllowedRootsTest : public ::testing::Test {
 protected:
  AllowedRootsTest() : base_(fs::canonical(scratch_.path())), root_(base_ / "root"), roots_{root_} {
    fs::create_directories(root_ / "in");
    fs::create_directories(base_ / "outside");
    fs::create_directories(base_ / "root2");
    std::ofstream(root_ / "in" / "file") << "x";
    std::ofstream(base_ / "outside" / "secret") << "x";
    fs::create_symlink("in", root_ / "link");
    fs::create_symlink(root_ / "in", root_ / "absolute");
    fs::create_symlink("../outside", root_ / "out");
    fs::create_symlink(base_ / "outside" / "new", root_ / "dangling");
    fs::create_symlink("loop2", root_ / "loop1");
    fs::create_symlink("loop1", root_ / "loop2");
    fs::create_symlink("/proc/self/root", root_ / "kernel");
    fs::create_symlink("root", base_ / "alias");
  }
  std::string allowed(const fs::path& path) { return allowed_path("data.root", path, root_, roots_).string(); }
  std::string refusal(const fs::path& path) {
    return testing::message_of<JobsError>([&] { allowed(path); });
  }
  std::string pattern_refusal(const std::string& pattern) {
    return testing::message_of<JobsError>([&] { allowed_pattern("data.train", pattern, root_, roots_); });
  }
  testing::Scratch scratch_;
  fs::path base_, root_;
  std::vector<fs::path> roots_;
};

TEST_F(AllowedRootsTest, WhatLiesInsideIsGivenByItsRealPath) {
  const auto file = (root_ / "in" / "file").string();
  for (const auto* path :
       {"in/file", "./in//file", "link/file", "absolute/file", "in/../link/../in/file", "out/../root/in/file"})
    EXPECT_EQ(allowed(path), file) << path;
  EXPECT_EQ(allowed(file), file);
  EXPECT_EQ(allowed(root_), root_.string());
  EXPECT_EQ(allowed("in/new/deeper"), (root_ / "in/new/deeper").string());
}

TEST_F(AllowedRootsTest, WhatLiesOutsideIsRefusedByNameAndRoot) {
  for (const auto* path : {"..", "../outside/secret", "in/../../outside", "out/secret", "out", "/etc/passwd", "/",
                           "kernel/etc/passwd", "../root2", "../root2/../root2/x"}) {
    const auto message = refusal(path);
    EXPECT_THAT(message, HasSubstr("lies outside")) << path;
    EXPECT_THAT(message, HasSubstr(root_.string())) << path;
    EXPECT_THAT(message, HasSubstr("data.root")) << path;
  }
  EXPECT_THAT(refusal("/proc/self/root" + base_.string() + "/outside"), HasSubstr("lies outside"));
}

TEST_F(AllowedRootsTest, AWayInThroughTheKernelsLinksIsJudgedByWhereItLeads) {
  EXPECT_EQ(allowed("/proc/self/root" + root_.string() + "/in"), (root_ / "in").string());
}

TEST_F(AllowedRootsTest, ALinkToWhatDoesNotExistYetIsFollowed) {
  EXPECT_THAT(refusal("dangling"), HasSubstr("resolves to " + (base_ / "outside" / "new").string()));
}

TEST_F(AllowedRootsTest, WhatCannotBeResolvedIsRefused) {
  EXPECT_THAT(refusal("loop1/x"), HasSubstr("loop"));
  EXPECT_MESSAGE(refusal("new/../../outside"));
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_MESSAGE(refusal("in/file/x"));
  EXPECT_THAT(refusal(std::string("in\0/x", 5)), HasSubstr("zero byte"));
  EXPECT_THAT(refusal(std::string(5000, 'a')), HasSubstr("5000 bytes"));
}

TEST_F(AllowedRootsTest, ALinkThatTheStorageDoesNotReadIsTheMachinesTrouble) {
  {
    const testing::FailingCall failing("readlink", EIO);
    EXPECT_THROW(allowed("link/file"), StorageError);
  }
  {
    const testing::FailingCall failing("readlink", ENOMEM);
    EXPECT_THROW(allowed("link/file"), NodeError);
  }
  const testing::FailingCall failing("readlink", ENOENT);
  EXPECT_MESSAGE(refusal("link/file"));
}

TEST_F(AllowedRootsTest, ARootMayItselfBeALink) {
  EXPECT_EQ(allowed_path("x", "in/file", base_ / "alias", {base_ / "alias"}), root_ / "in" / "file");
  EXPECT_THROW(allowed_path("x", "../outside", base_ / "alias", {base_ / "alias"}), JobsError);
}

TEST_F(AllowedRootsTest, AnyRootWillDoAndNoneMeansNothing) {
  EXPECT_EQ(allowed_path("x", base_ / "outside" / "secret", base_, {root_, base_ / "outside"}),
            base_ / "outside" / "secret");
  EXPECT_THROW(allowed_path("x", root_, root_, {}), JobsError);
  EXPECT_EQ(allowed_path("x", "/etc", root_, {"/"}), "/etc");
}

TEST_F(AllowedRootsTest, PatternsAreResolvedUpToTheirFirstSpecialCharacter) {
  EXPECT_EQ(allowed_pattern("x", "link/*.npz", root_, roots_), (root_ / "in" / "*.npz").string());
  EXPECT_EQ(allowed_pattern("x", "link/a{b,c}/**/x?.npz", root_, roots_), (root_ / "in/a{b,c}/**/x?.npz").string());
  EXPECT_EQ(allowed_pattern("x", "*.{npz,foretime}", root_, roots_), (root_ / "*.{npz,foretime}").string());
  EXPECT_EQ(allowed_pattern("x", "link/file", root_, roots_), (root_ / "in" / "file").string());
  EXPECT_EQ(allowed_pattern("x", "*..npz", root_, roots_), (root_ / "*..npz").string());
}

TEST_F(AllowedRootsTest, PatternsThatCouldLeadOutAreRefused) {
  EXPECT_THAT(pattern_refusal("out/*"), HasSubstr("lies outside"));
  EXPECT_THAT(pattern_refusal("/*"), HasSubstr("lies outside"));
  EXPECT_THAT(pattern_refusal("/et*/passwd"), HasSubstr("lies outside"));
  EXPECT_THAT(pattern_refusal("../*"), HasSubstr("lies outside"));
  for (const auto* pattern :
       {"*/../../outside/*", "a*/..", "{..,x}/outside/*", "{.,x}{.,y}/outside/*", "{in/.,x}{./a,y}", "{a,{b,..}}/x"})
    EXPECT_THAT(pattern_refusal(pattern), HasSubstr("'..' after")) << pattern;
  EXPECT_THAT(pattern_refusal("in/{a,b"), HasSubstr("without"));
  EXPECT_THAT(pattern_refusal("*/\\.\\./x"), HasSubstr("backslash"));
  std::string many;
  for (int i = 0; i < 40; ++i) many += "{a,b}";
  EXPECT_THAT(pattern_refusal(many), HasSubstr("more than"));
  std::string long_one;
  for (int i = 0; i < 50000; ++i) long_one += "{a}";
  EXPECT_THAT(pattern_refusal(long_one), HasSubstr("at most"));
}

}  // namespace
}  // namespace foretime::jobs
