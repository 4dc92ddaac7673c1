-- ARGV: events, sweep or nothing.
local sweep = ARGV[2]
if sweep == '' then
  call('DEL', P .. 'paused')
  return {'ok'}
end
local state = sweep_state(sweep)
if state == '' then return unknown_sweep(sweep) end
if state == 'cancelled' then return refused('sweep ' .. sweep .. ' was cancelled') end
call('HSET', sweep_key(sweep), 'state', 'running')
return {release_held(sweep) == BATCH and 'again' or 'ok'}
