#!lua flags=allow-oom
-- Cancels a job, or asks its agent to.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
--
-- Answers {'cancelled'}, {'requested'} or {'final'} where it has ended.
local id = ARGV[2]
local state = get(id, 'state')
if state == '' then return unknown_job(id) end
if FINAL[state] then return {'final'} end
cancel_or_ask(id, 'cancelled by request')
return {state == 'active' and 'requested' or 'cancelled'}
