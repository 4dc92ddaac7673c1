#include "tests/simulation/cluster/weaknesses.h"

#include <stdexcept>

namespace foretime::simulation {

const std::vector<Weakness>& weaknesses() {
  static const std::vector<Weakness> all = {
      {.name = "fence-unchecked",
       .what = "whoever once held a job's lease may write while it is active",
       .edits = {{"local newest = f.fence == fence and f.token == token", "local newest = true"},
                 {"string.sub(lease, 1, #mine) ~= mine or", ""}}},
      {.name = "fence-stays",
       .what = "a claim does not raise the fence",
       .edits = {{"int(num(f.fence) + 1)", "int(math.max(1, num(f.fence)))"},
                 {"format('%d', before + 1)", "format('%d', math.max(1, before))"}}},
      {.name = "token-unchecked",
       .what = "writes carry the fence only",
       .edits = {{"local newest = f.fence == fence and f.token == token", "local newest = f.fence == fence"},
                 {"local mine, lease = fence .. ' ' .. token .. ' ', f.lease",
                  "local mine, lease = fence .. ' ', f.lease"}}},
      {.name = "finish-unchecked",
       .what = "a result is written whoever holds the lease",
       .edits = {{"if not holds(id, fence, token, agent, f) then return 'no' end", ""}}},
      {.name = "losses-uncounted",
       .what = "reaping does not count lost leases in a row",
       .edits = {{"local times = further and 1 or num(f[field]) + 1", "local times = 1"}},
       .rare = true},
      {.name = "losses-without-delay",
       .what = "a job whose lease is lost again and again waits at once, and lost leases never come back",
       .edits = {{"if times == 1 then", "if true then"},
                 {"if newest and (f.state == 'waiting'", "if false and (f.state == ''"}},
       .rare = true},
      {.name = "lease-stays",
       .what = "the end of an attempt leaves its lease behind",
       .edits = {{"call('ZREM', P .. 'leases', id)\n    why", "why"}, {"call('ZREM', leases, id)", ""}}},
      {.name = "pause-ignored",
       .what = "claims take jobs of a paused queue",
       .edits = {{"if call('EXISTS', P .. 'paused') == 1 then return {'none'} end", ""}}},
      {.name = "sweep-pause-ignored",
       .what = "claims take jobs of a paused sweep",
       .edits = {{"elseif state ~= 'paused' and state ~= 'cancelled' then", "elseif state ~= 'cancelled' then"}}},
      {.name = "never-unblocked",
       .what = "a job whose needs have succeeded stays blocked",
       .edits = {{"if pending <= 0 and f[1] == 'blocked' then enter_state(child, 'waiting', 'unblock') end", ""}}},
      {.name = "never-reaped",
       .what = "expired leases are left alone",
       .edits = {{"elseif not grace(id, tonumber(expired[i + 1])) then", "elseif false then"}}},
      {.name = "loss-untold",
       .what = "a lost lease leaves no entry in the events",
       .edits = {{"event(name, id, from, to, old.fence or '0', old.agent or '', why)",
                  "if name ~= 'lost' then event(name, id, from, to, old.fence or '0', old.agent or '', why) end"}}},
      {.name = "checkpoint-unsynced",
       .what = "files of a checkpoint are renamed without an fsync",
       .files_unsynced = true},
  };
  return all;
}

const Weakness& weakness_named(const std::string& name) {
  std::string known;
  for (const auto& weakness : weaknesses()) {
    if (weakness.name == name) return weakness;
    known += " " + weakness.name;
  }
  throw std::invalid_argument("weakness " + name + ": expected one of:" + known);
}

std::string weakened(const Weakness& weakness, std::string script, int64_t& applied) {
  for (const auto& [from, to] : weakness.edits) {
    for (size_t at = 0; (at = script.find(from, at)) != std::string::npos; at += to.size()) {
      script.replace(at, from.size(), to);
      ++applied;
    }
  }
  return script;
}

}  // namespace foretime::simulation
