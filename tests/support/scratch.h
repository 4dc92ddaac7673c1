#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace foretime::testing {

/// A file's bytes; none where it cannot be read. A process that ends while its file in /proc is read makes the buffer
/// throw, which the stream's operator catches, and an iterator over the buffer does not.
inline std::string read_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

/// A fresh folder for one test, removed with it.
class Scratch {
 public:
  Scratch() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name =
        std::string("foretime-") + test->test_suite_name() + "-" + test->name() + "-" + std::to_string(getpid());
    for (char& c : name) c = c == '/' ? '_' : c;
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// Writes a file of the folder and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    write_text(path_ / name, bytes);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// A test with a folder of its own.
class ScratchTest : public ::testing::Test {
 protected:
  const Scratch scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

}  // namespace foretime::testing
