#include "data/frontends/ansor/records/record_reader.h"

#include <limits>
#include <numeric>

#include <simdjson.h>

#include "base/error.h"
#include "data/frontends/ansor/records/record_json.h"

namespace foretime::data {

std::shared_ptr<const std::vector<bool>> line_set(const std::vector<int64_t>& lines, const std::string& origin) {
  auto set = std::make_shared<std::vector<bool>>();
  for (const int64_t line : lines) {
    if (line < 0 || line > std::numeric_limits<int32_t>::max())
      throw DataError("{}: line {}, expected 0 or more", origin, line);
    if (set->size() <= static_cast<size_t>(line)) set->resize(static_cast<size_t>(line) + 1);
    (*set)[static_cast<size_t>(line)] = true;
  }
  return set;
}

int64_t RecordCounts::failed() const { return std::accumulate(errors.begin(), errors.end(), int64_t{0}); }

struct RecordReader::Parser {
  simdjson::dom::parser json{LineSource::kLongestLine + 1};
};

RecordReader::RecordReader(const std::filesystem::path& file, RecordShare share)
    : lines_(file), share_(share), parser_(std::make_unique<Parser>()) {
  if (share.parts < 1 || share.part < 0 || share.part >= share.parts)
    throw DataError("{}: part {} of {}, expected one of them", file.string(), share.part, share.parts);
}

RecordReader::~RecordReader() = default;

bool RecordReader::next(TuningRecord& record) { return read(record, false); }

bool RecordReader::next_with_failed(TuningRecord& record) { return read(record, true); }

bool RecordReader::read(TuningRecord& record, bool with_failed) {
  static_assert(LineSource::kPadding >= simdjson::SIMDJSON_PADDING);
  while (const auto line = lines_.next()) {
    if (!share_.has(lines_.line_number())) continue;
    ++counts_.lines;
    if (line->text.empty() || line->text[0] == '#' || line->text[0] == ' ') {
      ++counts_.skipped;
      continue;
    }
    try {
      if (line->too_long) throw DataError("longer than {} bytes, expected one record", LineSource::kLongestLine);
      read_record(parse_record_json(parser_->json, line->text, true), record);
    } catch (const DataError& error) {
      ++counts_.malformed;
      if (counts_.first_malformed.size() < RecordCounts::kKept)
        counts_.first_malformed.push_back({lines_.line_number(), error.what()});
      continue;
    }
    record.line = lines_.line_number();
    if (record.error != RecordError::none) {
      ++counts_.errors[static_cast<size_t>(record.error)];
      if (!with_failed) continue;
    }
    ++counts_.records;
    return true;
  }
  return false;
}

void parse_record(std::string_view text, TuningRecord& record) {
  simdjson::dom::parser parser;
  read_record(parse_record_json(parser, text, false), record);
  record.line = 0;
}

}  // namespace foretime::data
