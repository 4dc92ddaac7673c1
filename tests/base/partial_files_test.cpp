#include "base/partial_files.h"

#include <csignal>
#include <set>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "tests/support/scratch.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

TEST(HalfNames, AreExact) {
  for (const auto* name : {"m.json.foretime-tmp", "m.json.7.foretime-tmp", "m.json.7-0.foretime-tmp",
                           "m.json.7-0.x.foretime-tmp", "m.json.old-12.foretime-tmp"})
    EXPECT_TRUE(is_partial_file_of(fs::path("folder") / name, "m.json")) << name;
  for (const auto* name :
       {"m.json", "m.json.foretime-tmp.mine", "m.json.mine.foretime-tmp", "m.json.old-.foretime-tmp",
        "m.json.old-1x.foretime-tmp", "mm.json.foretime-tmp", "m.json.bak", "m.jsonfile.foretime-tmp"})
    EXPECT_FALSE(is_partial_file_of(name, "m.json")) << name;
}

class Halves : public testing::ScratchTest {
 protected:
  Names names() const {
    Names found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.insert(entry.path().filename().string());
    return found;
  }
  void write_anew() const { AtomicFile(path_, AtomicFile::Leftovers::remove).commit(); }
  /// A process that has written half of the file, and stays.
  pid_t start_writing() const {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      AtomicFile file(path_, AtomicFile::Leftovers::remove);
      file.write("half");
      file.flush();
      if (write(ready[1], "x", 1) == 1) pause();
      _exit(1);
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  }
  std::string half_of(pid_t process) const { return "data.bin." + std::to_string(process) + "-0.foretime-tmp"; }

  const fs::path path_ = folder_ / "data.bin";
};

TEST_F(Halves, OfAKilledProcessGoAndThoseOfALivingOneStay) {
  const pid_t process = start_writing();
  write_anew();
  EXPECT_EQ(names(), (Names{"data.bin", half_of(process)}));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  write_anew();
  EXPECT_EQ(names(), Names{"data.bin"});
}

TEST_F(Halves, OfOneWritingLiveAndDieTogether) {
  const Names parts = {"data.bin.77.part0.foretime-tmp", "data.bin.77.part1.foretime-tmp.77-0.foretime-tmp",
                       "data.bin.77.process0.77-0.foretime-tmp", "data.bin.77.process1.78-0.foretime-tmp"};
  for (const auto& name : parts) scratch_.write(name, "");
  {
    const AtomicFile alive(folder_ / "data.bin.77.process2", AtomicFile::Leftovers::remove);
    write_anew();
    EXPECT_EQ(names().size(), parts.size() + 2) << "one of its processes lives";
  }
  write_anew();
  EXPECT_EQ(names(), Names{"data.bin"});
}

TEST_F(Halves, OnlyNamesThatWeGiveAreLeftovers) {
  const Names others = {"data.bin.77.part0",     "data.bin.notes.foretime-tmp", "data.bin.old-7.foretime-tmp",
                        "data.bin.foretime-tmp", "data.bin2.77-0.foretime-tmp", "data.bin.77-.foretime-tmp"};
  for (const auto& name : others) scratch_.write(name, "");
  fs::create_directory(folder_ / "data.bin.78-0.foretime-tmp");
  write_anew();
  auto expected = others;
  expected.insert({"data.bin", "data.bin.78-0.foretime-tmp"});
  EXPECT_EQ(names(), expected);
}

TEST_F(Halves, ThatSomebodyRemovesAreMadeAnew) {
  const auto half = scratch_.write("half", "");
  const Descriptor ours(open(half.c_str(), O_WRONLY | O_CLOEXEC)), remover(open(half.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_TRUE(lock_partial_file(remover.get(), half));
  EXPECT_FALSE(lock_partial_file(ours.get(), half)) << "it is being removed";
  fs::remove(half);
  EXPECT_FALSE(lock_partial_file(remover.get(), half)) << "it has gone";
}

}  // namespace
}  // namespace foretime
