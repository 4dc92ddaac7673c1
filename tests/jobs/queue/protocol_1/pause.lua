-- ARGV: events, sweep or nothing, paused or running.
-- Jobs of a paused sweep are set aside one by one, when a claim comes upon them.
local sweep, to = ARGV[2], ARGV[3]
if sweep == '' then
  if to == 'paused' then call('SET', P .. 'paused', int(now)) else call('DEL', P .. 'paused') end
  return {'ok'}
end
local state = sweep_state(sweep)
if state == '' then return unknown_sweep(sweep) end
if state == 'cancelled' then return refused('sweep ' .. sweep .. ' was cancelled') end
call('HSET', sweep_key(sweep), 'state', to)
return {to == 'running' and release_held(sweep) == BATCH and 'again' or 'ok'}
