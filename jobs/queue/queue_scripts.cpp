#include "jobs/queue/queue_scripts.h"

#include <cctype>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/hex_digest.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {
namespace {

/// Without the line of flags, which Redis wants to be the first.
std::string body_of(const std::string& script) { return script.substr(script.find('\n') + 1); }

/// The identifiers in Lua, more or less: also words in strings.
std::set<std::string> words_of(const std::string& lua) {
  std::set<std::string> words;
  std::istringstream lines(lua);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("--")) continue;
    std::string word;
    for (const char c : line + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')
        word += c;
      else if (!word.empty())
        words.insert(std::exchange(word, ""));
    }
  }
  return words;
}

/// common.lua without the functions that a script does not need: at each call Redis makes all of them anew.
std::string needed_of(const std::string& common, const std::string& script) {
  struct Part {
    std::string name, text;  // name: of a function; empty: anything else
  };
  std::vector<Part> parts(1);
  std::istringstream lines(common);
  const std::string start = "local function ";
  for (std::string line; std::getline(lines, line);) {
    const bool begins = line.starts_with(start), whole = line.ends_with(" end");
    if (begins) parts.push_back({line.substr(start.size(), line.find('(') - start.size()), ""});
    parts.back().text += line + "\n";
    if (begins ? whole : line == "end" && !parts.back().name.empty()) parts.emplace_back();
  }
  auto needed = words_of(script);
  for (const auto& part : parts) {
    if (part.name.empty()) needed.merge(words_of(part.text));
  }
  // A function calls only those before it.
  std::string text;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!part->name.empty() && needed.count(part->name) == 0) continue;
    if (!part->name.empty()) needed.merge(words_of(part->text));
    text.insert(0, part->text);
  }
  return text;
}

std::map<std::string, Script> make_scripts(QueueClock clock, Protocol protocol) {
  std::map<std::string, std::string> texts;
  for (size_t i = 0; i < kScriptCount; ++i) texts[kScriptTexts[i].name] = kScriptTexts[i].text;
  const std::string before =
      fmt::format("local PROTOCOL, FORMAT, SWEEP_FORMAT, LARGEST_RECORD = {}, {}, {}, {}\n", protocol.version,
                  protocol.format, protocol.format > kRecordFormat ? protocol.format : kSweepFormat, Limits::kRecord) +
      texts.at(clock == QueueClock::redis ? "clock" : "clock_test");
  std::map<std::string, Script> scripts;
  for (const auto& [name, text] : texts) {
    if (name == "common" || name == "clock" || name == "clock_test" || name == "chain") continue;
    Script script;
    const auto flags = text.find('\n') + 1;
    // Idle agents listen: how many jobs came to wait is said once for each call, whatever it did. A user without the
    // right to publish does without.
    std::string first, parts;
    if (name == "finish_claim") {
      first = texts.at("chain");
      for (const char* part : {"finish", "claim"})
        parts += fmt::format("local function {}(ARGV)\n{}\nend\n", part, body_of(texts.at(part)));
    }
    script.text = fmt::format(
        "{}{}{}{}{}local function transition()\n{}\nend\nlocal answer = transition()\n"
        "if woken > 0 then redis.pcall('PUBLISH', P .. 'wake', int(woken)) end\nreturn answer\n",
        text.substr(0, flags), before, first, needed_of(texts.at("common"), parts + body_of(text)), parts,
        text.substr(flags));
    script.sha1 = hex_digest("SHA1", script.text);  // Redis names a script by it; nothing depends on its strength
    scripts[name] = script;
  }
  return scripts;
}

}  // namespace

const std::map<std::string, Script>& load_scripts(QueueClock clock, Protocol protocol) {
  static std::mutex mutex;
  static std::map<std::tuple<QueueClock, int64_t, int64_t>, std::map<std::string, Script>> made;
  const std::lock_guard lock(mutex);
  auto& scripts = made[{clock, protocol.version, protocol.format}];
  if (scripts.empty()) scripts = make_scripts(clock, protocol);
  return scripts;
}

}  // namespace foretime::jobs
