#pragma once

#include <memory>
#include <string_view>

#include <simdjson.h>

#include "data/frontends/ansor/records/record.h"

namespace foretime::data {

/// Reads a list of steps (`[["SP", 2, 0, 1, [1, 1], 1], ...]`) into `steps`, replacing what it held. Throws DataError,
/// which names the step, where one has another form than FORMATS says.
void read_steps(const simdjson::dom::array& list, ScheduleSteps& steps);

/// The JSON object of one record. `padded`: that simdjson may read behind the text. Throws DataError where it is none.
simdjson::dom::element parse_record_json(simdjson::dom::parser& parser, std::string_view text, bool padded);

/// Reads all of a record but its line number and its result, which may be missing. Throws DataError with the reason
/// where the object is no record.
void read_schedule(const simdjson::dom::element& root, TuningRecord& record);

/// Reads a record with its result.
void read_record(const simdjson::dom::element& root, TuningRecord& record);

/// Reads schedules that come one by one and need not have been measured. One object a thread: it keeps memory.
class ScheduleParser {
 public:
  ScheduleParser();
  ~ScheduleParser();

  /// Reads all of a record but its result, "r", which may be missing; `record` has no costs then. Throws DataError with
  /// the reason where the text is no record.
  void parse(std::string_view text, TuningRecord& record);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace foretime::data
