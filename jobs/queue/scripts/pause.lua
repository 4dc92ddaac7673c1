#!lua flags=allow-oom
-- Pauses or resumes a sweep, or the queue. Jobs of a paused sweep are set aside one by one, when a claim meets them.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> sweep; '' is the whole queue
-- ARGV[3] -> paused or running
--
-- Answers {'ok'}, or {'again'} where more jobs that were set aside are to be released.
local sweep, to = ARGV[2], ARGV[3]
if sweep == '' then
  if to == 'paused' then
    call('SET', P .. 'paused', int(now))
  else
    woken = woken + call('DEL', P .. 'paused')
  end
  return announce({'ok'})
end
local state = sweep_state(sweep)
if state == '' then return unknown_sweep(sweep) end
if state == 'cancelled' then return refused('sweep ' .. sweep .. ' was cancelled') end
call('HSET', sweep_key(sweep), 'state', to)
return announce({to == 'running' and release_held(sweep) == BATCH and 'again' or 'ok'})
