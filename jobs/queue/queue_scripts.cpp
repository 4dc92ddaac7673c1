#include "jobs/queue/queue_scripts.h"

#include <utility>

#include "base/hex_digest.h"

namespace foretime::jobs {

// Redis names a script by it; nothing depends on its strength.
Script script_of(std::string text) {
  auto sha1 = hex_digest("SHA1", text);
  return {std::move(text), std::move(sha1)};
}

}  // namespace foretime::jobs
