#include "base/atomic_file.h"

#include <iterator>

#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

using AtomicFiles = testing::ScratchTest;

TEST_F(AtomicFiles, ReplacesTheOldFileAtCommit) {
  const auto path = folder_ / "a.json";
  write_file_atomically(path, "old");
  {
    AtomicFile file(path), other(path);  // two writers do not meet
    file.write("new");
    file.flush();
    EXPECT_EQ(testing::read_text(file.aside()), "new");
    EXPECT_NE(file.aside(), other.aside());
    EXPECT_EQ(testing::read_text(path), "old");
    file.commit();
  }
  EXPECT_EQ(testing::read_text(path), "new");
  EXPECT_EQ(entries(folder_), 1U) << "what was not committed is left";
}

TEST_F(AtomicFiles, FailuresNameTheFileAndTheReason) {
  const auto missing = folder_ / "missing" / "a.json";
  EXPECT_MESSAGE(message_of<FileError>([&] { write_file_atomically(missing, ""); }), missing.string());
  EXPECT_THROW(write_synced(missing, ""), FileError);
  fs::create_directories(folder_ / "folder" / "in");
  EXPECT_MESSAGE(message_of<FileError>([&] { write_file_atomically(folder_ / "folder", ""); }), "folder");
  EXPECT_EQ(entries(folder_), 1U) << "a failed commit leaves a file";
  EXPECT_MESSAGE(message_of<FileError>([&] { write_file_atomically("/dev/full/x", ""); }));
}

// Promise storage/files-half-written
TEST_F(AtomicFiles, AFullDiskIsToldFromBadInput) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this machine has no /dev/full";
  const auto file = files().open("/dev/full", Files::Open::replace);
  try {
    file->write("bytes");
    FAIL() << "a full device took bytes";
  } catch (const StorageError& error) {
    EXPECT_EQ(exit_code_of(error), kStorage);
    EXPECT_MESSAGE(std::string(error.what()), "/dev/full");
  }
}

TEST_F(AtomicFiles, FoldersAreReplacedAsAWhole) {
  const auto aside = folder_ / "aside", target = folder_ / "target";
  for (const char* text : {"first", "second"}) {
    fs::create_directories(aside);
    write_synced(aside / text, text);
    replace_folder(aside, target);
    EXPECT_EQ(testing::read_text(target / text), text);
    EXPECT_EQ(entries(target), 1U);
  }
  EXPECT_THROW(replace_folder(aside, target), FileError);
}

}  // namespace
}  // namespace foretime
