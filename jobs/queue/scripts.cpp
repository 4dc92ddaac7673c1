#include "jobs/queue/scripts.h"

#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

/// Redis names a script by it; nothing depends on its strength.
std::string sha1_of(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1)
    throw JobsError("SHA-1 is not available from libcrypto; Redis names its scripts by it");
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace

std::map<std::string, Script> load_scripts(QueueClock clock) {
  std::map<std::string, std::string> texts;
  for (size_t i = 0; i < kScriptCount; ++i) texts[kScriptTexts[i].name] = kScriptTexts[i].text;
  const std::string before = texts.at(clock == QueueClock::redis ? "clock" : "clock_test") + texts.at("common");
  std::map<std::string, Script> scripts;
  for (const auto& [name, text] : texts) {
    if (name == "common" || name == "clock" || name == "clock_test") continue;
    Script script;
    script.text = before + text;
    script.sha1 = sha1_of(script.text);
    scripts[name] = script;
  }
  return scripts;
}

}  // namespace foretime::jobs
