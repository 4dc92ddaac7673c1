-- ARGV: events, job, fence, token, agent, parameters, number of proposals that the proposer saw.
local id, parameters = ARGV[2], ARGV[6]
touch()
if not holds(id, ARGV[3], ARGV[4], ARGV[5]) then return {'no'} end
local f = call('HMGET', job_key(id), 'deferred', 'sweep', 'parameters')
-- Parameters are fixed once. A proposer whose answer was lost is told whether they are the ones that it wanted.
if f[1] ~= '1' then return {f[3] == parameters and 'ok' or 'no'} end
local key = sweep_key(f[2])
if call('EXISTS', key) == 0 then return unknown_sweep(f[2]) end
-- Two agents that decide at once would decide the same: the second one must look again.
if num(call('HGET', key, 'proposals')) ~= tonumber(ARGV[7]) then return {'no'} end
call('HINCRBY', key, 'proposals', 1)
set(id, 'deferred', '', 'parameters', parameters)
return {'ok'}
