#!lua
-- Adds a sweep. One that is there stays as it is but for a larger number of trials.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> sweep
-- ARGV[3…] -> fields and values of its record
--
-- Answers {'ok'}, or {'no'} where it is there.
local id, FIRST_FIELD = ARGV[2], 3
local state = fields(sweep_key(id), 'state')[1]
if state == 'cancelled' then
  return refused('sweep ' .. id .. ' was cancelled; change its file or its seed to submit it again')
end
if state then
  for i = FIRST_FIELD, #ARGV, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if name == 'trials' and num(value) > num(fields(sweep_key(id), 'trials')[1]) then
      call('HSET', sweep_key(id), 'trials', value)
    end
  end
  return {'no'}
end
call('HSET', sweep_key(id), 'state', 'running', 'created_ms', int(now), 'proposals', '0', unpack(ARGV, FIRST_FIELD))
call('ZADD', P .. 'sweeps', int(now), id)
return {'ok'}
