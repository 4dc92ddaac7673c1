#!lua flags=allow-oom
-- ARGV: events, job, priority.
local id = ARGV[2]
local f = some(id, MOVING)
if not f.state then return unknown_job(id) end
if FINAL[f.state] then return refused('job ' .. id .. ' has ended as ' .. f.state .. ': its priority means nothing') end
set(id, 'priority', ARGV[3])
f.priority = ARGV[3]
local shape, score = place(f)
if f.state == 'waiting' then call('ZADD', P .. 'waiting:' .. shape, score, id) end
if f.state == 'held' then call('ZADD', P .. 'held:' .. f.sweep, score, id) end
return {'ok'}
