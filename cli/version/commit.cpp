#include "generated/commit.h"

#include "cli/version/build_info.h"

namespace foretime::cli {

const char* const kCommit = FORETIME_COMMIT;

}  // namespace foretime::cli
