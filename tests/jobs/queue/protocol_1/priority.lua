-- ARGV: events, job, priority.
local id = ARGV[2]
local f = call('HMGET', job_key(id), 'state', 'sweep')
if not f[1] then return unknown_job(id) end
if FINAL[f[1]] then return refused('job ' .. id .. ' has ended as ' .. f[1] .. ': its priority means nothing') end
set(id, 'priority', ARGV[3])
local shape, score = place(id)
if f[1] == 'waiting' then call('ZADD', P .. 'waiting:' .. shape, score, id) end
if f[1] == 'held' then call('ZADD', P .. 'held:' .. f[2], score, id) end
return {'ok'}
