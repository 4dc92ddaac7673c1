#!lua flags=allow-oom
-- Moves the deadline of a lease. A deadline that has passed does no harm as long as nobody acted on it.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
-- ARGV[3] -> fence of the lease
-- ARGV[4] -> token of the lease
-- ARGV[5] -> agent
-- ARGV[6] -> term from now in ms
--
-- Answers {'proceed'}, {'stop'}, {'cancel'} or {'lost'}.
local id, fence, token, agent, term_ms = unpack(ARGV, 2, 6)
local term = tonumber(term_ms)
touch()
local f = some(id, HELD)
if not holds(id, fence, token, agent, f) then return {'lost'} end
call('ZADD', P .. 'leases', int(now + term), id)
call('SET', P .. 'token:' .. token, id, 'PX', int(lifetime_ms(term)))
if num(f.term_ms) ~= term then
  set(id, 'lease', lease_text(fence, token, f.attempt or '1', f.claimed_ms or '0', int(term), f.agent or agent))
end
if (f.graced or '') ~= '' then set(id, 'graced', '') end
return directive(f)
