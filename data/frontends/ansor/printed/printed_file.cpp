#include "data/frontends/ansor/printed/printed_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "data/files/file_form.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/printed/printed_line.h"

namespace foretime::data {
namespace {

/// "STAGE.AXIS=NUMBER", "READER.NAME=STAGE" and "INPUT:TYPE", with blanks between; other words are a comment.
void read_hints(std::string_view text, PrintedHints& hints) {
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const size_t equal = word.find('='), colon = word.find(':'), dot = word.find('.');
    if (dot < equal && equal != std::string_view::npos) {
      const auto extent = listed_lengths(word.substr(equal + 1));
      if (extent.size() != 1) throw DataError("'{}', expected STAGE.AXIS=NUMBER", word);
      size_t stage = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + dot, stage);
      if (error == std::errc() && end == word.data() + dot)
        hints.reads[{stage, std::string(word.substr(dot + 1, equal - dot - 1))}] = extent.front();
      else
        hints.extents[std::string(word.substr(0, equal))] = extent.front();
    } else if (colon != std::string_view::npos && colon > 0 && colon + 1 < word.size()) {
      hints.types[std::string(word.substr(0, colon))] = word.substr(colon + 1);
    }
  }
}

}  // namespace

std::vector<PrintedDag> read_printed_dags(const std::filesystem::path& file) {
  std::vector<PrintedDag> dags;
  expect_form(file, {FileForm::printed_dags}, "compute DAGs as TVM prints them");
  LineSource lines(file);
  bool open = false;
  std::optional<PrintedDag> next;
  while (const auto line = lines.next()) {
    auto text = line->text;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (line->too_long) throw DataError("{}:{}: longer than a stage may be", file.string(), lines.line_number());
    try {
      if (text.empty()) {
        open = false;
      } else if (text[0] == '[' || text[0] == '#') {
        if (std::exchange(open, false) || !next) next.emplace();
        if (text[0] == '[')
          next->key = text;
        else
          read_hints(text.substr(1), next->hints);
      } else {
        if (!open) dags.push_back(std::exchange(next, std::nullopt).value_or(PrintedDag()));
        if (!open) dags.back().line = lines.line_number();
        open = true;
        dags.back().text.append(text).push_back('\n');
      }
    } catch (const DataError& error) {
      throw DataError("{}:{}: {}", file.string(), lines.line_number(), error.what());
    }
  }
  if (dags.empty()) throw DataError("{}: found no line, expected compute DAGs as TVM prints them", file.string());
  return dags;
}

}  // namespace foretime::data
