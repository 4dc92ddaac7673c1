-- ARGV: events, id, then fields and values.
local id = ARGV[2]
local state = call('HGET', sweep_key(id), 'state')
if state == 'cancelled' then
  return refused('sweep ' .. id .. ' was cancelled; change its file or its seed to submit it again')
end
if state then return {'no'} end
call('HSET', sweep_key(id), 'state', 'running', 'created_ms', int(now), 'proposals', '0', unpack(ARGV, 3))
call('ZADD', P .. 'sweeps', int(now), id)
return {'ok'}
