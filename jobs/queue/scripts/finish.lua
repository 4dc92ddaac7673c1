#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, outcome, metrics, objective, checkpoint, error, exit code, seconds, jitter,
-- base and cap of the back-off in ms, 1 where it was preempted and nobody had asked for that, how often in a row it may be,
-- what stays of the history of a job that ends for good, or nothing.
local id, fence, token, agent, outcome = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
touch()
local succeeded, f = outcome == 'succeeded' or outcome == 'stopped', record(id)
-- The answer to this very call was lost: it stands, and is not done again.
local by = fence .. ':' .. token
if f.finished_by == by or f.state == 'succeeded' and f.fence == fence and f.token == token then return {'ok'} end
if not holds(id, fence, token, agent, f) then return {'no'} end
local new = {'finished_by', by, 'seconds', ARGV[12]}
local function add(name, value)
  new[#new + 1] = name
  new[#new + 1] = value
end
if ARGV[9] ~= '' then add('checkpoint', ARGV[9] ~= '-' and ARGV[9] or '') end
local asked, told_to_stop = f.cancel == '1', f.stop == '1'
local function add_history()
  if ARGV[18] ~= '' then add('history', ARGV[18]) end
end

if succeeded then
  -- The only place where a result is written. A request to cancel came too late.
  if ARGV[7] ~= '' then add('metrics', ARGV[7]) end
  add('results', int(num(f.results) + 1))
  if outcome == 'stopped' then add('stopped', '1') else add('reason', '') end
  if ARGV[8] ~= '' then note_objective(new, f, ARGV[8]) end
  add_history()
  count('succeeded')
  if outcome == 'stopped' then count('stopped') end
  enter_state(id, 'succeeded', 'finish', new, f)
  settle(id)
  return {'ok'}
end

add('exit_code', ARGV[11])
add('error', ARGV[10])
local function cancel(name)
  add('reason', 'cancelled by request')
  add('cancelled_by', '')
  add_history()
  count('cancelled')
  enter_state(id, 'cancelled', name, new, f)
  settle(id)
end
local function die(name, reason)
  add('reason', reason)
  add_history()
  count('dead')
  enter_state(id, 'dead', name, new, f)
  settle(id)
end

-- Half of the wait is random, so that jobs that ended together do not come back together.
local function wait_for_retry(times, name)
  local longest = math.min(tonumber(ARGV[15]), tonumber(ARGV[14]) * 2 ^ (times - 1))
  delay(id, longest * (0.5 + tonumber(ARGV[13]) / 2), name, new, f)
end

if outcome == 'failed' then
  add('reason', 'failed, and would fail again')
  add_history()
  count('failed')
  enter_state(id, 'failed', 'finish', new, f)
  settle(id)
elseif outcome == 'cancelled' then
  cancel('finish')
elseif outcome == 'preempted' then
  if asked then
    cancel('preempt')
  else
    -- Not the job's fault: no attempt is used up. What preempts it over and over, and lets it get nowhere, has an end.
    count('preempted')
    local times = ARGV[16] == '1' and count_in_a_row(new, f, 'preemptions') or 0
    if times >= tonumber(ARGV[17]) then
      local reason = 'preempted ' .. int(times) .. ' times in a row without progress, last on ' .. (f.agent or '')
      if ARGV[10] == '' then add('error', reason) end
      die('preempt', reason)
    else
      if not told_to_stop then add('reason', 'preempted on ' .. (f.agent or '')) end
      if times > 0 then wait_for_retry(times, 'preempt') else enter_state(id, 'waiting', 'preempt', new, f) end
    end
  end
elseif outcome == 'error' then
  count('errors')
  local failures = num(f.failures) + 1
  if asked then
    cancel('error')
  else
    add('failures', int(failures))
    if (f.failed_on or '') == '' then add('failed_on', agent) end
    if failures >= num(f.max_attempts or 3) then
      die('error', 'failed ' .. int(failures) .. ' times')
    else
      if not told_to_stop then add('reason', 'attempt ' .. (f.attempt or '') .. ' failed') end
      wait_for_retry(failures, 'error')
    end
  end
else
  return redis.error_reply('ERR unknown outcome')
end
return {'ok'}
