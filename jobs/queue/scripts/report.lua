#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, step, total steps, eta, loss, iteration, kind of objective (none, finite,
-- nan), objective, metrics, checkpoint, number of new log lines, lines kept in the log, then the last of these lines.
local id = ARGV[2]
local iteration, kind, objective = tonumber(ARGV[10]), ARGV[11], ARGV[12]
touch()
if not holds(id, ARGV[3], ARGV[4], ARGV[5]) then return {'lost'} end
set(id, 'step', ARGV[6], 'total_steps', ARGV[7], 'eta_s', ARGV[8], 'loss', ARGV[9], 'updated_ms', int(now))
if iteration > 0 then set(id, 'iteration', int(iteration)) end
if ARGV[13] ~= '' then set(id, 'metrics', ARGV[13]) end
if ARGV[14] ~= '' then set(id, 'checkpoint', ARGV[14]) end

if kind == 'finite' then note_objective(id, objective) end
if kind == 'nan' then set(id, 'objective', '') end

-- Asynchronous successive halving: decided here, where all values at a rung are seen at once, so that agents need not
-- agree on anything. A value stands as it was first reported: an attempt that resumes does not count twice.
local f = fields(job_key(id), 'sweep', 'kind', 'stop')
local sweep = f[1] or ''
if kind ~= 'none' and sweep ~= '' and f[2] == 'train' and f[3] ~= '1' then
  local s = fields(sweep_key(sweep), 'rungs', 'eta', 'goal')
  local maximize, eta, stopped = s[3] == 'maximize', num(s[2]), false
  for _, rung in ipairs(eta > 1 and list(s[1], 'number') or {}) do
    local key = sweep_key(sweep) .. ':rung:' .. int(rung)
    local score = kind == 'finite' and objective or (maximize and '-inf' or '+inf')
    if rung <= iteration and call('ZADD', key, 'NX', score, id) == 1 and not stopped then
      local n = call('ZCARD', key)
      local better = maximize and call('ZCOUNT', key, '(' .. score, '+inf') or call('ZCOUNT', key, '-inf', '(' .. score)
      local reason = 'early stopping at rung ' .. int(rung)
      if kind == 'nan' then
        stopped = reason .. ': the objective is not a number'
      elseif better >= math.max(1, math.floor(n / eta)) then
        stopped = reason .. ': rank ' .. int(better + 1) .. ' of ' .. int(n)
      end
    end
  end
  if stopped then set(id, 'stop', '1', 'reason', stopped) end
end

if tonumber(ARGV[15]) > 0 then
  call('RPUSH', job_key(id) .. ':log', unpack(ARGV, 17))
  call('LTRIM', job_key(id) .. ':log', -tonumber(ARGV[16]), -1)
  set(id, 'log_lines', int(num(get(id, 'log_lines')) + tonumber(ARGV[15])))
end
return directive(id)
