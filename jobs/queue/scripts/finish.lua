#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, outcome, metrics, objective, checkpoint, error, exit code, seconds, jitter,
-- base and cap of the back-off in ms, 1 where it was preempted and nobody had asked for that, how often in a row it may be.
local id, fence, token, agent, outcome = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
touch()
-- The answer to this very call was lost: it stands, and is not done again.
local by = fence .. ':' .. token
if get(id, 'finished_by') == by then return {'ok'} end
if not holds(id, fence, token, agent) then return {'no'} end
local f = fields(job_key(id), 'cancel', 'stop', 'failures', 'max_attempts', 'attempt', 'results')
local new = {'finished_by', by, 'exit_code', ARGV[11], 'seconds', ARGV[12], 'error', ARGV[10]}
local function add(name, value)
  new[#new + 1] = name
  new[#new + 1] = value
end
if ARGV[9] ~= '' then add('checkpoint', ARGV[9]) end
local wins = outcome == 'succeeded' or outcome == 'stopped'
if wins then
  -- The only place where a result is written. A request to cancel came too late.
  if ARGV[7] ~= '' then add('metrics', ARGV[7]) end
  add('results', int(num(f[6]) + 1))
  if outcome == 'stopped' then add('stopped', '1') else add('reason', '') end
end
set(id, unpack(new))
local asked, told_to_stop = f[1] == '1', f[2] == '1'

-- Half of the wait is random, so that jobs that ended together do not come back together.
local function wait_for_retry(times, name)
  local longest = math.min(tonumber(ARGV[15]), tonumber(ARGV[14]) * 2 ^ (times - 1))
  delay(id, longest * (0.5 + tonumber(ARGV[13]) / 2), name)
end

if wins then
  if ARGV[8] ~= '' then note_objective(id, ARGV[8]) end
  count('results')
  count('succeeded')
  if outcome == 'stopped' then count('stopped') end
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
    -- Not the job's fault: no attempt is used up. What preempts it over and over, and lets it get nowhere, has an end.
    count('preempted')
    local times = ARGV[16] == '1' and count_in_a_row(id, 'preemptions') or 0
    if times >= tonumber(ARGV[17]) then
      local reason = 'preempted ' .. int(times) .. ' times in a row without progress, last on ' .. get(id, 'agent')
      set(id, 'reason', reason, 'error', reason)
      count('dead')
      enter_state(id, 'dead', 'preempt')
      settle(id)
    else
      if not told_to_stop then set(id, 'reason', 'preempted on ' .. get(id, 'agent')) end
      if times > 0 then wait_for_retry(times, 'preempt') else enter_state(id, 'waiting', 'preempt') end
    end
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
      if not told_to_stop then set(id, 'reason', 'attempt ' .. (f[5] or '') .. ' failed') end
      wait_for_retry(failures, 'error')
    end
  end
else
  return redis.error_reply('ERR unknown outcome')
end
return {'ok'}
