#!lua
-- ARGV: events, id, then fields and values.
local id = ARGV[2]
local state = fields(sweep_key(id), 'state')[1]
if state == 'cancelled' then
  return refused('sweep ' .. id .. ' was cancelled; change its file or its seed to submit it again')
end
if state then
  for i = 3, #ARGV, 2 do
    if ARGV[i] == 'trials' and num(ARGV[i + 1]) > num(fields(sweep_key(id), 'trials')[1]) then
      call('HSET', sweep_key(id), 'trials', ARGV[i + 1])
    end
  end
  return {'no'}
end
-- A sweep of this id whose jobs were all forgotten may have left its list.
call('DEL', sweep_key(id) .. ':changes')
call('HSET', sweep_key(id), 'state', 'running', 'created_ms', int(now), 'proposals', '0', 'tracked', '1', 'format',
     int(SWEEP_FORMAT), unpack(ARGV, 3))
call('ZADD', P .. 'sweeps', int(now), id)
return {'ok'}
