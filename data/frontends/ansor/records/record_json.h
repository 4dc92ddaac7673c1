#pragma once

#include <string_view>

#include <simdjson.h>

#include "data/frontends/ansor/records/record.h"

namespace foretime::data {

/// The JSON object of one record. `padded`: that simdjson may read behind the text. Throws DataError where it is none.
simdjson::dom::element parse_record_json(simdjson::dom::parser& parser, std::string_view text, bool padded);

/// Reads all of a record but its line number and its result, which may be missing. Throws DataError with the reason
/// where the object is no record.
void read_schedule(const simdjson::dom::element& root, TuningRecord& record);

/// Reads a record with its result.
void read_record(const simdjson::dom::element& root, TuningRecord& record);

}  // namespace foretime::data
