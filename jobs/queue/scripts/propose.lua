#!lua flags=allow-oom
-- Fixes the parameters of a trial that were left open. They are fixed once.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
-- ARGV[3] -> fence of the lease
-- ARGV[4] -> token of the lease
-- ARGV[5] -> agent
-- ARGV[6] -> parameters, a JSON object
--
-- Answers {'ok'}, or {'no'} where the lease was lost or other parameters are fixed.
local id, fence, token, agent, parameters = unpack(ARGV, 2, 6)
touch()
local f = some(id, {'spec', 'lease', 'state', 'deferred', 'sweep', 'parameters'})
if not holds(id, fence, token, agent, f) then return {'no'} end
-- A proposer whose answer was lost is told whether they are the ones that it wanted.
if f.deferred ~= '1' then
  if f.parameters then return {f.parameters == parameters and 'ok' or 'no'} end
  -- They came with the job.
  local sound, spec = pcall(cjson.decode, f.spec or '')
  local fixed, wanted = sound and type(spec) == 'table' and spec.parameters or {}, cjson.decode(parameters)
  local same = type(fixed) == 'table'
  for name, value in pairs(same and fixed or {}) do same = same and wanted[name] == value end
  for name, value in pairs(wanted) do same = same and fixed[name] == value end
  return {same and 'ok' or 'no'}
end
local key = sweep_key(f.sweep or '')
if call('EXISTS', key) == 0 then return unknown_sweep(f.sweep or '') end
call('HSET', key, 'proposals', int(num(fields(key, 'proposals')[1]) + 1))
note_trial(f.sweep, id)
set(id, 'deferred', '', 'parameters', parameters)
return {'ok'}
