#include "tests/support/golden.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/text.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::testing {
namespace {

/// Messages by the name of their test.
using Entries = std::map<std::string, std::vector<std::string>>;

constexpr std::string_view kDigits = "0123456789";
constexpr const char* kUpdate = "FORETIME_UPDATE_MESSAGES";

bool is_name(char c) { return is_letter(c) || is_digit(c); }

bool updates() { return std::getenv(kUpdate) != nullptr; }

std::string file_name() { return fmt::format("tests/messages/{}.txt", program_invocation_short_name); }
std::filesystem::path file() { return std::filesystem::path(FORETIME_SOURCE_DIR) / file_name(); }

Entries parse(const std::string& text) {
  Entries entries;
  std::vector<std::string>* messages = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("- ") && messages != nullptr) messages->push_back(line.substr(2));
    else if (line.starts_with("  ") && messages != nullptr && !messages->empty())
      messages->back() += '\n' + line.substr(2);
    else if (!line.empty()) messages = &entries[line];
  }
  return entries;
}

std::string text_of(const Entries& entries) {
  std::string text;
  for (const auto& [test, messages] : entries) {
    text += (text.empty() ? "" : "\n") + test + '\n';
    for (const std::string& message : messages) {
      text += "- ";
      for (const char c : message) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
      text += '\n';
    }
  }
  return text;
}

/// Replaces what begins with `start` and continues with characters of `rest`, `least` or more, by `start` and a mark.
/// A letter or a digit before it makes it another word.
void mark(std::string& text, std::string_view start, std::string_view rest, size_t least, std::string_view by) {
  for (size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    if (at > 0 && is_name(text[at - 1])) continue;
    const size_t begin = at + start.size();
    const size_t end = std::min(text.find_first_not_of(rest, begin), text.size());
    if (end - begin >= least) text.replace(begin, end - begin, by);
  }
}

/// Replaces a path, and not the beginning of a longer name.
void mark_path(std::string& text, const std::string& path, std::string_view by) {
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + 1)) {
    const size_t end = at + path.size();
    if (end == text.size() || !is_name(text[end])) text.replace(at, path.size(), by);
  }
}

/// Replaces the name below a folder of temporary files together with that folder.
void mark_temporary(std::string& text, const std::string& folder) {
  for (size_t at = text.find(folder + '/'); at != std::string::npos; at = text.find(folder + '/', at + 1)) {
    if (at > 0 && (is_name(text[at - 1]) || (text[at - 1] == '/' && !text.substr(0, at).ends_with("//")))) continue;
    const size_t begin = at + folder.size() + 1;
    const size_t end = std::min(text.find_first_of("/ \n:;,'\"`()[]{}?", begin), text.size());
    if (end > begin) text.replace(at, end - at, "$TMP");
  }
}

std::string host_name() {
  std::string name(256, '\0');
  return gethostname(name.data(), name.size() - 1) == 0 ? name.c_str() : "";
}

std::string name_of(const ::testing::TestInfo& test) {
  return fmt::format("{}.{}", test.test_suite_name(), test.name());
}

std::set<std::string> tests_of_program() {
  std::set<std::string> names;
  const auto* all = ::testing::UnitTest::GetInstance();
  for (int i = 0; i < all->total_test_suite_count(); ++i) {
    const auto* suite = all->GetTestSuite(i);
    for (int j = 0; j < suite->total_test_count(); ++j) names.insert(name_of(*suite->GetTestInfo(j)));
  }
  return names;
}

/// Counts a test's messages, and compares or rewrites the file.
class Messages : public ::testing::EmptyTestEventListener {
 public:
  ::testing::AssertionResult compare(const std::string& text) {
    found_.push_back(text);
    if (updates()) return ::testing::AssertionSuccess();
    const auto& expected = expected_[test_];
    if (found_.size() > expected.size())
      return ::testing::AssertionFailure() << fmt::format("{} has no message {} of {}; found\n{}\n{}", file_name(),
                                                          found_.size(), test_, text, kHint);
    const std::string& entry = expected[found_.size() - 1];
    if (text == entry) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << fmt::format("message {} of {} in {}:\n{}\nfound\n{}\n{}", found_.size(),
                                                        test_, file_name(), entry, text, kHint);
  }

  void OnTestIterationStart(const ::testing::UnitTest& /*all*/, int /*iteration*/) override {
    ran_.clear();
    expected_ = parse(read_text(file()));
  }

  void OnTestStart(const ::testing::TestInfo& test) override {
    test_ = name_of(test);
    found_.clear();
  }

  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Passed() || test.result()->Skipped()) return;
    ran_[test_] = found_;
    const size_t expected = expected_[test_].size();
    if (!updates() && found_.size() < expected)
      ADD_FAILURE() << fmt::format("{} has {} messages of {}, which has {}\n{}", file_name(), expected, test_,
                                   found_.size(), kHint);
  }

  void OnTestIterationEnd(const ::testing::UnitTest& /*all*/, int /*iteration*/) override {
    const auto names = tests_of_program();
    if (updates()) return update(names);
    for (const auto& [test, messages] : expected_)
      if (!messages.empty() && !names.contains(test))
        ADD_FAILURE() << fmt::format("{} has messages of {}, which does not exist\n{}", file_name(), test, kHint);
  }

 private:
  /// Rewrites the entries of the tests that ran. Other processes of this program may do the same at this time.
  void update(const std::set<std::string>& names) const {
    const int descriptor = open(file().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0 || flock(descriptor, LOCK_EX) != 0) {
      ADD_FAILURE() << file_name() << ": cannot be written";
      return;
    }
    Entries entries = parse(read_text(file()));
    for (const auto& [test, messages] : ran_) entries[test] = messages;
    std::erase_if(entries, [&](const auto& entry) { return entry.second.empty() || !names.contains(entry.first); });
    write_text(file(), text_of(entries));
    if (entries.empty()) std::filesystem::remove(file());
    close(descriptor);
  }

  static constexpr std::string_view kHint = "FORETIME_UPDATE_MESSAGES=1 rewrites the file.";
  Entries expected_;
  Entries ran_;
  std::string test_;
  std::vector<std::string> found_;
};

/// GoogleTest owns it, and calls it from the program's start.
Messages& messages() {
  static Messages* const listener = [] {
    auto* made = new Messages;
    ::testing::UnitTest::GetInstance()->listeners().Append(made);
    return made;
  }();
  return *listener;
}

[[maybe_unused]] const Messages& kListener = messages();

}  // namespace

std::string marked_message(std::string_view of) {
  std::string text(of);
  mark_path(text, FORETIME_BUILD_DIR, "$BUILD");
  mark_path(text, FORETIME_SOURCE_DIR, "$SOURCE");
  mark_temporary(text, std::filesystem::temp_directory_path().string());
  mark_temporary(text, "/tmp");
  for (const char* host : {"127.0.0.1:", "localhost:", "[::1]:"}) mark(text, host, kDigits, 4, "$PORT");
  for (const char* word : {"process ", "pid "}) mark(text, word, kDigits, 2, "$PID");
  for (const char* word : {"Foretime ", "foretime "}) mark(text, word, "0123456789.", 5, "$VERSION");
  if (const std::string host = host_name(); !host.empty()) {
    mark_path(text, "on " + host, "on $HOST");
    mark_path(text, "(" + host, "($HOST");
  }
  // What the time, the processor, the user or the version of another library decides.
  static const std::vector<std::pair<std::regex, const char*>> kChanging = {
      {std::regex(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)"), "$$TIME"},
      {std::regex(R"(CRC-32 [0-9a-f]{8}, the manifest says [0-9a-f]{8})"), "CRC-32 $$CRC, the manifest says $$CRC"},
      {std::regex(R"(\b[0-9a-f]{16}\b)"), "$$ID"},
      {std::regex(R"(\bhad \d+ (bytes|MiB))"), "had $$SIZE $1"},
      {std::regex(R"(\buses \d+ of (\d+ MiB of maxmemory) \(\d+ %\))"), "uses $$SIZE of $1"},
      {std::regex(R"(\btakes \d+ bytes of memory)"), "takes $$SIZE bytes of memory"},
      {std::regex(R"(\b\d+ (de)?compressed bytes( hold at most \d+)?)"), "$$SIZE $1compressed bytes"},
      {std::regex(R"(\{test\d+\})"), "{$$TEST}"},
      {std::regex(R"(\bin PATH \([^)]*\))"), "in PATH ($$FOLDERS)"},
      {std::regex(R"(\bthis is user \d+)"), "this is user $$USER"},
      {std::regex(R"(\[json\.exception[^;\n]*)"), "$$JSON"}};
  for (const auto& [pattern, by] : kChanging) text = std::regex_replace(text, pattern, by);
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    shown += (code < 0x20 && c != '\n') || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  shown.resize(shown.find_last_not_of('\n') + 1);
  return shown;
}

::testing::AssertionResult is_expected_message(std::string_view message,
                                               std::initializer_list<std::string_view> places) {
  if (message.empty() || message == kNoException) return ::testing::AssertionFailure() << "found no message";
  for (const std::string_view place : places)
    if (message.find(place) == std::string::npos)
      return ::testing::AssertionFailure() << fmt::format("found\n{}\nexpected {} in it", message, place);
  return messages().compare(marked_message(message));
}

}  // namespace foretime::testing
