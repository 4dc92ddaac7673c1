#!lua flags=allow-oom
-- Sets what holds for the queue as a whole: one answer for all agents, or those that keep least would rule.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> how long finished jobs are kept in ms, 0 for ever; '' says nothing about it
-- ARGV[3] -> how many finished jobs are kept, 0 all; '' says nothing about it
-- ARGV[4] -> 1 where this replaces what was said before
-- ARGV[5] -> how many bytes of artifacts Redis holds; '' says nothing about it
-- ARGV[6] -> the identity that the queue gets where it has none
--
-- Answers {'ok', keep_finished_ms, keep_jobs, artifact_bytes, identity}: what holds now.
local keep_ms, keep_jobs, replaces, artifact_bytes, proposed_identity = unpack(ARGV, 2, 6)
local NAMES, said = {'keep_finished_ms', 'keep_jobs', 'artifact_bytes'}, {keep_ms, keep_jobs, artifact_bytes}
local rules = fields(P .. 'settings', unpack(NAMES))
for i, name in ipairs(NAMES) do
  if said[i] ~= '' and (not rules[i] or replaces == '1') then
    call('HSET', P .. 'settings', name, said[i])
    rules[i] = said[i]
  end
end
local identity = fields(P .. 'settings', 'identity')[1]
if not identity and proposed_identity ~= '' then
  identity = proposed_identity
  call('HSET', P .. 'settings', 'identity', identity)
end
return {'ok', int(num(rules[1])), int(num(rules[2])), rules[3] or '', identity or ''}
