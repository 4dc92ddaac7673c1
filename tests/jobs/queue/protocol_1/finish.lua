-- ARGV: events, job, fence, token, agent, outcome, metrics, objective, checkpoint, error, exit code, seconds, jitter,
-- base and cap of the back-off in ms.
local id, fence, token, agent, outcome = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
touch()
-- The answer to this very call was lost: it stands, and is not done again.
local by = fence .. ':' .. token
if get(id, 'finished_by') == by then return {'ok'} end
if not holds(id, fence, token, agent) then return {'no'} end
set(id, 'finished_by', by, 'exit_code', ARGV[11], 'seconds', ARGV[12], 'error', ARGV[10])
if ARGV[9] ~= '' then set(id, 'checkpoint', ARGV[9]) end
local f = call('HMGET', job_key(id), 'cancel', 'stop', 'failures', 'max_attempts', 'attempt')
local asked, told_to_stop = f[1] == '1', f[2] == '1'

if outcome == 'succeeded' or outcome == 'stopped' then
  -- The only place where a result is written. A request to cancel came too late.
  if ARGV[7] ~= '' then set(id, 'metrics', ARGV[7]) end
  if ARGV[8] ~= '' then note_objective(id, ARGV[8]) end
  call('HINCRBY', job_key(id), 'results', 1)
  count('results')
  count('succeeded')
  if outcome == 'stopped' then
    set(id, 'stopped', '1')
    count('stopped')
  else
    set(id, 'reason', '')
  end
  enter_state(id, 'succeeded', 'finish')
  settle(id)
elseif outcome == 'failed' then
  set(id, 'reason', 'failed, and would fail again')
  count('failed')
  enter_state(id, 'failed', 'finish')
  settle(id)
elseif outcome == 'cancelled' then
  cancel_now(id, 'finish', 'cancelled by request')
elseif outcome == 'preempted' then
  if asked then
    cancel_now(id, 'preempt', 'cancelled by request')
  else
    -- Not the job's fault: no attempt is used up.
    count('preempted')
    if not told_to_stop then set(id, 'reason', 'preempted on ' .. get(id, 'agent')) end
    enter_state(id, 'waiting', 'preempt')
  end
elseif outcome == 'error' then
  count('errors')
  local failures = num(f[3]) + 1
  if asked then
    cancel_now(id, 'error', 'cancelled by request')
  else
    set(id, 'failures', int(failures))
    if failures >= num(f[4]) then
      set(id, 'reason', 'failed ' .. int(failures) .. ' times')
      count('dead')
      enter_state(id, 'dead', 'error')
      settle(id)
    else
      if not told_to_stop then set(id, 'reason', 'attempt ' .. f[5] .. ' failed') end
      -- Half of the wait is random, so that jobs that failed together do not come back together.
      local longest = math.min(tonumber(ARGV[15]), tonumber(ARGV[14]) * 2 ^ (failures - 1))
      local due = int(now + math.floor(longest * (0.5 + tonumber(ARGV[13]) / 2)))
      enter_state(id, 'delayed', 'error')
      call('ZADD', P .. 'delayed', due, id)
      set(id, 'due_ms', due)
    end
  end
else
  return redis.error_reply('ERR unknown outcome')
end
return {'ok'}
