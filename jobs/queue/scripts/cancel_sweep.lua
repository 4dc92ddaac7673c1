#!lua flags=allow-oom
-- ARGV: events, sweep, start or continue.
-- The mark comes first, so that no job of the sweep is submitted or claimed while the batches go on. Should the caller
-- die, reap.lua goes on with them.
local sweep = ARGV[2]
if sweep_state(sweep) == '' then return unknown_sweep(sweep) end
if ARGV[3] == 'start' then
  call('HSET', sweep_key(sweep), 'state', 'cancelled', 'cancelled_jobs', '0')
  call('ZADD', P .. 'cancelling', call('ZCARD', sweep_key(sweep) .. ':jobs'), sweep)
end
local more = cancel_batch(sweep)
return {more and 'again' or 'ok', int(num(fields(sweep_key(sweep), 'cancelled_jobs')[1]))}
