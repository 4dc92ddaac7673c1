-- ARGV: events, sweep or nothing. Jobs of a paused sweep are set aside one by one, when a claim comes upon them.
local sweep = ARGV[2]
if sweep == '' then
  call('SET', P .. 'paused', int(now))
  return {'ok'}
end
local state = sweep_state(sweep)
if state == '' then return unknown_sweep(sweep) end
if state == 'cancelled' then return refused('sweep ' .. sweep .. ' was cancelled') end
call('HSET', sweep_key(sweep), 'state', 'paused')
return {'ok'}
