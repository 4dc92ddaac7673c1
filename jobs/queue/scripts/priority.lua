#!lua flags=allow-oom
-- Sets the priority of a job that has not ended, and so its place among those that wait.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
-- ARGV[3] -> priority
--
-- Answers {'ok'}.
local id, priority = ARGV[2], ARGV[3]
local f = some(id, MOVING)
if not f.state then return unknown_job(id) end
if FINAL[f.state] then return refused('job ' .. id .. ' has ended as ' .. f.state .. ': its priority means nothing') end
set(id, 'priority', priority)
f.priority = priority
local shape, score = place(f)
if f.state == 'waiting' then call('ZADD', P .. 'waiting:' .. shape, score, id) end
if f.state == 'held' then call('ZADD', P .. 'held:' .. f.sweep, score, id) end
return {'ok'}
