#!lua flags=allow-oom
-- Cancels the jobs of a sweep in batches. The mark comes first, so that no job of the sweep is submitted or claimed while
-- the batches continue. Should the caller die, reap.lua continues with them.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> sweep
-- ARGV[3] -> start or continue
--
-- Answers {'ok' or 'again' where there is more, jobs that were cancelled or asked so far}.
local sweep, step = ARGV[2], ARGV[3]
if sweep_state(sweep) == '' then return unknown_sweep(sweep) end
if step == 'start' then
  call('HSET', sweep_key(sweep), 'state', 'cancelled', 'cancelled_jobs', '0')
  call('ZADD', P .. 'cancelling', call('ZCARD', sweep_key(sweep) .. ':jobs'), sweep)
end
local more = cancel_batch(sweep)
return {more and 'again' or 'ok', int(num(fields(sweep_key(sweep), 'cancelled_jobs')[1]))}
