#pragma once

#include <simdjson.h>

#include "data/frontends/ansor/records/record.h"

namespace foretime::data {

/// Reads a list of steps (`[["SP", 2, 0, 1, [1, 1], 1], ...]`) into `steps`, replacing what it held. Throws DataError,
/// which names the step, where one has another form than FORMATS says.
void read_steps(const simdjson::dom::array& list, ScheduleSteps& steps);

}  // namespace foretime::data
