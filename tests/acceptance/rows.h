#pragma once

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

/// What the acceptance program found, row by row.
namespace foretime::acceptance {

enum class Kind : uint8_t {
  must,    // correctness: the exit code depends on it
  target,  // of speed: the table says whether it holds
  figure,  // a number, nothing more
};

/// A row: `holds` is null where nothing could be said, and `note` then has the reason.
class Rows {
 public:
  /// Of the check `check`; each row is added to `file` at once as a line of JSON, for the process may be killed. An
  /// empty path: to stdout alone.
  Rows(std::string check, std::filesystem::path file) : check_(std::move(check)), file_(std::move(file)) {}

  /// `value` is at most `limit`; a NaN is not.
  void at_most(Kind kind, const std::string& what, double value, double limit, const std::string& unit,
               const std::string& note = "");
  void at_least(Kind kind, const std::string& what, double value, double limit, const std::string& unit,
                const std::string& note = "");
  void is_true(Kind kind, const std::string& what, bool holds, const std::string& note = "");
  void figure(const std::string& what, double value, const std::string& unit, const std::string& note = "");
  /// A fact in words.
  void fact(const std::string& what, const std::string& text);
  /// A check that could not be made on this machine.
  void skipped(Kind kind, const std::string& what, const std::string& why);
  /// Runs `body`; what it throws is a row that does not hold.
  void guarded(const std::string& what, const std::function<void()>& body);

  /// No row of Kind::must is false.
  bool correct() const { return correct_; }

 private:
  void add(Kind kind, const std::string& what, nlohmann::json row);

  std::string check_;
  std::filesystem::path file_;
  bool correct_ = true;
};

}  // namespace foretime::acceptance
