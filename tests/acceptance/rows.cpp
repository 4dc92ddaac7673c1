#include "tests/acceptance/rows.h"

#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace foretime::acceptance {
namespace {

const char* word_of_kind(Kind kind) { return kind == Kind::must ? "must" : kind == Kind::target ? "target" : "figure"; }

/// JSON has no NaN and no infinity.
nlohmann::json number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr); }

}  // namespace

void Rows::at_most(Kind kind, const std::string& what, double value, double limit, const std::string& unit,
                   const std::string& note) {
  add(kind, what,
      {{"value", number(value)},
       {"limit", limit},
       {"is", "at most"},
       {"unit", unit},
       {"holds", value <= limit},
       {"note", note}});
}

void Rows::at_least(Kind kind, const std::string& what, double value, double limit, const std::string& unit,
                    const std::string& note) {
  add(kind, what,
      {{"value", number(value)},
       {"limit", limit},
       {"is", "at least"},
       {"unit", unit},
       {"holds", value >= limit},
       {"note", note}});
}

void Rows::is_true(Kind kind, const std::string& what, bool holds, const std::string& note) {
  add(kind, what, {{"holds", holds}, {"note", note}});
}

void Rows::figure(const std::string& what, double value, const std::string& unit, const std::string& note) {
  add(Kind::figure, what, {{"value", number(value)}, {"unit", unit}, {"holds", nullptr}, {"note", note}});
}

void Rows::fact(const std::string& what, const std::string& text) {
  add(Kind::figure, what, {{"holds", nullptr}, {"note", text}});
}

void Rows::skipped(Kind kind, const std::string& what, const std::string& why) {
  add(kind, what, {{"holds", nullptr}, {"note", why}});
}

void Rows::guarded(const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    is_true(Kind::must, what, false, error.what());
  }
}

void Rows::add(Kind kind, const std::string& what, nlohmann::json row) {
  row["check"] = check_;
  row["what"] = what;
  row["kind"] = word_of_kind(kind);
  if (kind == Kind::must && row["holds"] == false) correct_ = false;
  const auto text = row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::cout << text << std::endl;
  if (file_.empty()) return;
  std::ofstream out(file_, std::ios::app);
  out << text << std::endl;
  if (!out) throw std::runtime_error(file_.string() + ": a row could not be written");
}

}  // namespace foretime::acceptance
