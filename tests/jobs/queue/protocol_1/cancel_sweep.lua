-- ARGV: events, sweep, number of its jobs that were looked at.
-- The mark comes first, so that no job of the sweep is submitted or claimed while the batches go on.
local sweep, from = ARGV[2], tonumber(ARGV[3])
if sweep_state(sweep) == '' then return unknown_sweep(sweep) end
call('HSET', sweep_key(sweep), 'state', 'cancelled')
local ids = call('ZRANGE', sweep_key(sweep) .. ':jobs', from, from + BATCH - 1)
local changed = 0
for _, id in ipairs(ids) do changed = changed + cancel_or_ask(id, 'its sweep was cancelled') end
return {#ids == BATCH and 'again' or 'ok', int(changed), int(from + #ids)}
