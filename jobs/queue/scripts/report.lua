#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, step, total steps, eta, loss or nothing, iteration, kind of objective (none,
-- finite, nan), objective, metrics, checkpoint, number of new log lines, lines kept in the log, history or nothing, then
-- the last of these lines.
local id = ARGV[2]
local iteration, kind, objective = tonumber(ARGV[10]), ARGV[11], ARGV[12]
touch()
local f = some(id, {'spec', 'lease', 'state', 'fence', 'token', 'cancel', 'stop', 'goal', 'best_objective', 'sweep', 'kind', 'log_lines'})
if not holds(id, ARGV[3], ARGV[4], ARGV[5], f) then return {'lost'} end
local new = {'step', ARGV[6], 'total_steps', ARGV[7], 'eta_s', ARGV[8], 'updated_ms', int(now)}
local function add(name, value)
  new[#new + 1] = name
  new[#new + 1] = value
end
if ARGV[9] ~= '' then add('loss', ARGV[9]) end
if iteration > 0 then add('iteration', int(iteration)) end
if ARGV[13] ~= '' then add('metrics', ARGV[13]) end
if ARGV[14] ~= '' then add('checkpoint', ARGV[14]) end
if ARGV[17] ~= '' then add('history', ARGV[17]) end

if kind == 'finite' then note_objective(new, f, objective) end
if kind == 'nan' then add('objective', '') end

-- Asynchronous successive halving: decided here, where all values at a rung are seen at once, so that agents need not
-- agree on anything. A value stands as it was first reported: an attempt that resumes does not count twice.
local sweep = f.sweep or ''
if kind ~= 'none' and sweep ~= '' and f.kind == 'train' and f.stop ~= '1' then
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
  if stopped then
    f.stop = '1'
    add('stop', '1')
    add('reason', stopped)
  end
end

if tonumber(ARGV[15]) > 0 then
  call('RPUSH', job_key(id) .. ':log', unpack(ARGV, 18))
  call('LTRIM', job_key(id) .. ':log', -tonumber(ARGV[16]), -1)
  add('log_lines', int(num(f.log_lines) + tonumber(ARGV[15])))
end
set(id, unpack(new))
return directive(f)
