#!lua flags=allow-oom
-- Ends an attempt and, where it is asked for, claims the next job: a slot between two jobs needs one call. The claim comes
-- whatever became of the end.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
-- ARGV[3] -> fence of the lease
-- ARGV[4] -> token of the lease
-- ARGV[5] -> agent
-- ARGV[6] -> outcome: succeeded, stopped, failed, cancelled, preempted or error
-- ARGV[7] -> metrics, JSON, or ''
-- ARGV[8] -> objective, or ''
-- ARGV[9] -> checkpoint; '' leaves that which was reported, - removes it
-- ARGV[10] -> error
-- ARGV[11] -> exit code
-- ARGV[12] -> seconds that the attempt took
-- ARGV[13] -> jitter in [0, 1), which spreads retries
-- ARGV[14] -> back-off before the first retry in ms
-- ARGV[15] -> longest back-off in ms
-- ARGV[16] -> 1 where it was preempted and nobody had asked for that
-- ARGV[17] -> preemptions in a row, without progress, that end a job
-- ARGV[18] -> what stays of the history of a job that ends for good, or ''
-- ARGV[19…25] -> none, or ARGV[2…8] of claim.lua
--
-- Answers {'ok', or 'no' where the lease was lost, then what claim.lua answers}.
local id, fence, token, agent, outcome, metrics, objective, checkpoint = unpack(ARGV, 2, 9)
local error_text, exit_code, seconds, jitter, backoff_ms, longest_ms = unpack(ARGV, 10, 15)
local unasked, most_preemptions, history = unpack(ARGV, 16, 18)
local claims, FIRST_OF_CLAIM, LAST_OF_CLAIM = ARGV[19] ~= nil, 19, 25

local lease = fence .. ':' .. token
local f, new

-- Ends the job for good.
local function end_as(state, name, reason)
  if reason then add(new, 'reason', reason) end
  if history ~= '' then add(new, 'history', history) end
  count(state)
  enter_state(id, state, name, new, f)
  settle(id)
end

local function cancel(name)
  add(new, 'cancelled_by', '')
  end_as('cancelled', name, 'cancelled by request')
end

-- Half of the wait is random, so that jobs that ended together do not come back together.
local function wait_for_retry(times, name)
  local longest = math.min(tonumber(longest_ms), tonumber(backoff_ms) * 2 ^ (times - 1))
  delay(id, longest * (0.5 + tonumber(jitter) / 2), name, new, f)
end

-- Writes the result; nothing else does. A request to cancel came too late.
local function succeed()
  if metrics ~= '' then add(new, 'metrics', metrics) end
  add(new, 'results', int(num(f.results) + 1))
  if outcome == 'stopped' then
    add(new, 'stopped', '1')
    count('stopped')
  else
    add(new, 'reason', '')
  end
  if objective ~= '' then note_objective(new, f, objective) end
  end_as('succeeded', 'finish')
end

-- Preemption is not the job's fault: no attempt is used up. What preempts it over and over, and lets it get nowhere, has
-- an end.
local function preempt()
  count('preempted')
  local times = unasked == '1' and count_in_a_row(new, f, 'preemptions') or 0
  if times >= tonumber(most_preemptions) then
    local reason = 'preempted ' .. int(times) .. ' times in a row without progress, last on ' .. (f.agent or '')
    if error_text == '' then add(new, 'error', reason) end
    end_as('dead', 'preempt', reason)
    return
  end
  if f.stop ~= '1' then add(new, 'reason', 'preempted on ' .. (f.agent or '')) end
  if times > 0 then wait_for_retry(times, 'preempt') else enter_state(id, 'waiting', 'preempt', new, f) end
end

local function fail_attempt()
  local failures = num(f.failures) + 1
  add(new, 'failures', int(failures))
  if (f.failed_on or '') == '' then add(new, 'failed_on', agent) end
  if failures >= num(f.max_attempts or 3) then
    end_as('dead', 'error', 'failed ' .. int(failures) .. ' times')
    return
  end
  if f.stop ~= '1' then add(new, 'reason', 'attempt ' .. (f.attempt or '') .. ' failed') end
  wait_for_retry(failures, 'error')
end

local function finish()
  touch()
  f = record(id)
  -- The answer to this very call was lost: it stands, and is not done again.
  local again = f.finished_by == lease or f.state == 'succeeded' and f.fence == fence and f.token == token
  if again then return 'ok' end
  if not holds(id, fence, token, agent, f) then return 'no' end
  new = {'finished_by', lease, 'seconds', seconds}
  if checkpoint ~= '' then add(new, 'checkpoint', checkpoint ~= '-' and checkpoint or '') end
  if outcome == 'succeeded' or outcome == 'stopped' then
    succeed()
    return 'ok'
  end
  add(new, 'exit_code', exit_code)
  add(new, 'error', error_text)
  if outcome == 'error' then count('errors') end
  if outcome == 'failed' then
    end_as('failed', 'finish', 'failed, and would fail again')
  elseif outcome == 'cancelled' then
    cancel('finish')
  elseif f.cancel == '1' then
    cancel(outcome == 'preempted' and 'preempt' or 'error')
  elseif outcome == 'preempted' then
    preempt()
  else
    fail_attempt()
  end
  return 'ok'
end

local finished = finish()
return announce({finished, unpack(claims and claim(unpack(ARGV, FIRST_OF_CLAIM, LAST_OF_CLAIM)) or {})})
