#include "data/frontends/ansor/records/schedule_parser.h"

#include <simdjson.h>

#include "data/frontends/ansor/records/record_json.h"

namespace foretime::data {
namespace {

constexpr size_t kLongestRecord = size_t{16} << 20;  // bytes

}  // namespace

struct ScheduleParser::Parser {
  simdjson::dom::parser json{kLongestRecord};
};

ScheduleParser::ScheduleParser() : parser_(std::make_unique<Parser>()) {}
ScheduleParser::~ScheduleParser() = default;

void ScheduleParser::parse(std::string_view text, TuningRecord& record) {
  read_schedule(parse_record_json(parser_->json, text, false), record);
  record.line = 0;
  record.error = RecordError::none;
  record.costs.clear();
  record.all_cost = record.timestamp = 0.0;
}

}  // namespace foretime::data
