#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/numbers.h"
#include "base/text.h"
#include "history/history.h"

namespace foretime::history {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr int kBitsOfDigit = 6, kBitsOfFloat = 32;
constexpr int64_t kMostSteps = int64_t{1} << 53;
constexpr size_t kMostPoints = 1 << 20;  // points in one unpacked series
constexpr size_t kLeast = 4;             // points of a series, before one is left out

/// The upper `bits` of a float32, rounded; NaN and infinities stay what they are.
uint32_t code_of(double value, int bits) {
  const int lost = kBitsOfFloat - bits;
  auto code = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (std::isfinite(value)) code += uint32_t{1} << (lost - 1);
  if (std::isnan(value)) code = 0x7FC00000;
  return code >> lost;
}

/// The number with the fewest decimal digits that has this code.
double value_of(uint32_t code, int bits) {
  const double exact = std::bit_cast<float>(code << (kBitsOfFloat - bits));
  if (!std::isfinite(exact)) return exact;
  for (int digits = 1; digits < 9; ++digits) {
    const auto text = fmt::format("{:.{}g}", exact, digits);
    const auto value = parse_number<double>(text);
    if (value && code_of(*value, bits) == code) return *value;
  }
  return exact;
}

std::string packed_name(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c > ' ' && c < '\x7f' && c != '%') text += c;
    else text += fmt::format("%{:02X}", c & 0xFF);
  }
  return text;
}

std::string packed_steps(const Series& series) {
  auto text = std::to_string(series.front().step);
  for (size_t i = 1; i < series.size();) {
    const int64_t distance = series[i].step - series[i - 1].step;
    size_t end = i + 1;
    while (end < series.size() && series[end].step - series[end - 1].step == distance) ++end;
    text += fmt::format("+{}", distance);
    if (end - i > 1) text += fmt::format("x{}", end - i);
    i = end;
  }
  return text;
}

std::string packed_series(const std::string& name, const Series& series, int digits) {
  auto line = packed_name(name) + " " + packed_steps(series) + " ";
  for (const auto& point : series) {
    const auto code = code_of(point.value, digits * kBitsOfDigit);
    for (int digit = digits - 1; digit >= 0; --digit) line += kDigits[(code >> (digit * kBitsOfDigit)) & 63];
  }
  return line + "\n";
}

/// Reads one line; `what` is for messages.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) {}

  std::pair<std::string, Series> read() {
    const auto name = word(), steps = word(), values = line_;
    auto series = series_of(steps);
    if (series.empty() || values.empty() || values.size() % series.size() != 0) damaged("values", values);
    const size_t digits = values.size() / series.size();
    if (digits < 2 || digits > 5) damaged("values", values);
    const int bits = digits * kBitsOfDigit;
    for (size_t i = 0; i < series.size(); ++i) {
      uint32_t code = 0;
      for (const char c : values.substr(i * digits, digits)) {
        const auto at = kDigits.find(c);
        if (at == std::string_view::npos) damaged("values", values);
        code = code << kBitsOfDigit | static_cast<uint32_t>(at);
      }
      series[i].value = value_of(code, bits);
    }
    return {name_of(name), std::move(series)};
  }

 private:
  [[noreturn]] static void damaged(const char* what, std::string_view found) {
    throw HistoryError("history: {}: found '{}', expected NAME STEPS VALUES (docs/reference/jobs.md)", what,
                       printable_utf8(found.substr(0, 60)));
  }

  std::string_view word() {
    const auto end = line_.find(' ');
    if (end == std::string_view::npos || end == 0) damaged("line", line_);
    const auto text = line_.substr(0, end);
    line_.remove_prefix(end + 1);
    return text;
  }

  static int64_t number(std::string_view& text) {
    const auto found = text;
    const auto value = take_number<int64_t>(text);
    if (!value || *value < 0 || *value > kMostSteps) damaged("steps", found);
    return *value;
  }

  static Series series_of(std::string_view text) {
    Series series = {{number(text), 0}};
    while (!text.empty()) {
      if (text.front() != '+') damaged("steps", text);
      text.remove_prefix(1);
      const int64_t distance = number(text);
      int64_t times = 1;
      if (!text.empty() && text.front() == 'x') {
        text.remove_prefix(1);
        times = number(text);
      }
      if (distance < 1 || times < 1 || times > static_cast<int64_t>(kMostPoints - series.size()) ||
          distance > kMostSteps / times)
        damaged("steps", text);
      for (int64_t i = 0; i < times; ++i) series.push_back({series.back().step + distance, 0});
    }
    return series;
  }

  static std::string name_of(std::string_view text) {
    std::string name;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        name += text[i];
        continue;
      }
      const auto hex = text.substr(i + 1, 2);
      const auto value = parse_number<unsigned>(hex, 16);
      if (hex.size() != 2 || !value) damaged("name", text);
      name += *value;
      i += 2;
    }
    return name;
  }

  std::string_view line_;
};

}  // namespace

std::string pack(const History& history, const PackRequest& request) {
  const auto& all = history.series();
  std::vector<std::map<std::string, Series>::const_iterator> order;
  for (const auto& name : request.first) {
    const auto found = all.find(name);
    if (found != all.end() && std::ranges::find(order, found) == order.end()) order.push_back(found);
  }
  for (auto each = all.begin(); request.others && each != all.end(); ++each)
    if (std::ranges::find(request.first, each->first) == request.first.end()) order.push_back(each);
  // As many points as fit; where too few do, without the last series.
  for (size_t count = order.size(); count > 0; --count) {
    size_t longest = 0;
    for (size_t i = 0; i < count; ++i) longest = std::max(longest, order[i]->second.size());
    const size_t least = count > 1 ? std::min(longest, kLeast) : 1;
    for (size_t most = longest; most >= least; most = most - most / 8 - 1) {
      std::string text;
      for (size_t i = 0; i < count && text.size() <= request.bytes; ++i) {
        const size_t share = i == 0 ? most : std::max(std::min(most, kLeast), most / (i == 1 ? 2 : 4));
        text += packed_series(order[i]->first, thinned(order[i]->second, share), request.digits);
      }
      if (text.size() <= request.bytes) return text;
    }
  }
  return "";
}

History unpack(const std::string& text, size_t most) {
  History history(most);
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos)
      throw HistoryError("history: the last line is cut, expected a line feed at its end");
    auto [name, series] = LineReader(rest.substr(0, end)).read();
    rest.remove_prefix(end + 1);
    if (history.series_.size() >= History::kSeries) break;
    history.last_step_ = std::max(history.last_step_, series.back().step);
    history.series_[name] = std::move(series);
  }
  return history;
}

}  // namespace foretime::history
