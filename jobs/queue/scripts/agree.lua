#!lua flags=allow-oom
-- ARGV: events, how long finished jobs are kept in ms (0: for ever), how many of them (0: all), 1 where this changes what
-- was said before, how many bytes of artifacts Redis holds; nothing in place of a number says nothing about it;
-- and the identity that the queue gets where it has none.
-- One answer for all agents, or those that keep least would rule. Says what rules.
local NAMES = {'keep_finished_ms', 'keep_jobs', 'artifact_bytes'}
local found = fields(P .. 'settings', unpack(NAMES))
local rules = {}
for i, name in ipairs(NAMES) do
  local said = ARGV[i < 3 and i + 1 or 5] or ''
  rules[i] = found[i] or said
  if said ~= '' and (not found[i] or ARGV[4] == '1') then
    call('HSET', P .. 'settings', name, said)
    rules[i] = said
  end
end
local identity = fields(P .. 'settings', 'identity')[1]
if not identity and (ARGV[6] or '') ~= '' then
  identity = ARGV[6]
  call('HSET', P .. 'settings', 'identity', identity)
end
return {'ok', int(num(rules[1])), int(num(rules[2])), rules[3], identity or ''}
