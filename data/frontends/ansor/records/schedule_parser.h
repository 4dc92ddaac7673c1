#pragma once

#include <memory>
#include <string_view>

#include "data/frontends/ansor/records/record.h"

namespace foretime::data {

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
