#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, term in ms.
local id, token, term = ARGV[2], ARGV[4], tonumber(ARGV[6])
touch()
-- A deadline that has passed does no harm as long as nobody acted on it.
local f = some(id, HELD)
if not holds(id, ARGV[3], token, ARGV[5], f) then return {'lost'} end
call('ZADD', P .. 'leases', int(now + term), id)
call('SET', P .. 'token:' .. token, id, 'PX', int(lifetime_ms(term)))
set(id, 'term_ms', int(term), 'graced', '')
return directive(f)
