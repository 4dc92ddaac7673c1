#!lua flags=allow-oom
-- Writes the progress of an attempt and decides whether early stopping ends it.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
-- ARGV[3] -> fence of the lease
-- ARGV[4] -> token of the lease
-- ARGV[5] -> agent
-- ARGV[6] -> steps done
-- ARGV[7] -> steps in all
-- ARGV[8] -> seconds that it still takes, below 0 where that is unknown
-- ARGV[9] -> loss, or ''
-- ARGV[10] -> evaluations so far
-- ARGV[11] -> kind of the objective: none, finite, or nan
-- ARGV[12] -> objective, where it is finite
-- ARGV[13] -> metrics, JSON, or ''
-- ARGV[14] -> newest checkpoint, or ''
-- ARGV[15] -> how many new lines of the log there are
-- ARGV[16] -> how many lines of the log are kept
-- ARGV[17] -> history, or ''
-- ARGV[18…] -> the last of the new lines
--
-- Answers {'proceed'}, {'stop'}, {'cancel'} or {'lost'}.
local id, fence, token, agent, step, total_steps, eta_s, loss = unpack(ARGV, 2, 9)
local evaluations, kind, objective, metrics, checkpoint = unpack(ARGV, 10, 14)
local new_lines, kept_lines, history, FIRST_LINE = ARGV[15], ARGV[16], ARGV[17], 18
local iteration = tonumber(evaluations)
touch()
local f = some(id, {'spec', 'lease', 'state', 'cancel', 'stop', 'goal', 'best_objective', 'sweep', 'kind', 'log_lines'})
if not holds(id, fence, token, agent, f) then return {'lost'} end
local new = {'step', step, 'total_steps', total_steps, 'eta_s', eta_s, 'updated_ms', int(now)}
if loss ~= '' then add(new, 'loss', loss) end
if iteration > 0 then add(new, 'iteration', int(iteration)) end
if metrics ~= '' then add(new, 'metrics', metrics) end
if checkpoint ~= '' then add(new, 'checkpoint', checkpoint) end
if history ~= '' then add(new, 'history', history) end

if kind == 'finite' then note_objective(new, f, objective) end
if kind == 'nan' then add(new, 'objective', '') end

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
    add(new, 'stop', '1')
    add(new, 'reason', stopped)
  end
end

if tonumber(new_lines) > 0 then
  call('RPUSH', job_key(id) .. ':log', unpack(ARGV, FIRST_LINE))
  call('LTRIM', job_key(id) .. ':log', -tonumber(kept_lines), -1)
  add(new, 'log_lines', int(num(f.log_lines) + tonumber(new_lines)))
end
set(id, unpack(new))
return directive(f)
