#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, parameters.
local id, parameters = ARGV[2], ARGV[6]
touch()
if not holds(id, ARGV[3], ARGV[4], ARGV[5]) then return {'no'} end
local f = fields(job_key(id), 'deferred', 'sweep', 'parameters')
-- Parameters are fixed once. A proposer whose answer was lost is told whether they are the ones that it wanted.
if f[1] ~= '1' then return {f[3] == parameters and 'ok' or 'no'} end
local key = sweep_key(f[2])
if call('EXISTS', key) == 0 then return unknown_sweep(f[2]) end
call('HSET', key, 'proposals', int(num(fields(key, 'proposals')[1]) + 1))
note_trial(f[2], id)
set(id, 'deferred', '', 'parameters', parameters)
return {'ok'}
