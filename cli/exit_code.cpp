#include "cli/exit_code.h"

#include "cli/light_exit_code.h"
#include "coordinator/agree.h"
#include "jobs/error.h"

namespace foretime::cli {

int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const jobs::RedisUnavailable*>(&error) != nullptr ||
      dynamic_cast<const jobs::RedisRefused*>(&error) != nullptr) {
    return coordinator::kComm;
  }
  if (dynamic_cast<const jobs::JobsError*>(&error) != nullptr) return coordinator::kUsage;
  const int code = light_exit_code_of(error);
  return code == coordinator::kInternal ? coordinator::exit_code_of(error) : code;
}

}  // namespace foretime::cli
