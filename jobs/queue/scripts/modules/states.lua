-- Module: the states of jobs, and what one job's state does to those that need it.
local woken = 0       -- jobs that this call put into waiting
local settling = 256  -- jobs that need another one, of which this call may still move as many

-- Every script that may put jobs into waiting ends with this: idle agents listen and hear once how many came. A user
-- without the right to publish does without.
local function announce(answer)
  if woken > 0 then redis.pcall('PUBLISH', P .. 'wake', int(woken)) end
  return answer
end

local function count(name) call('HINCRBY', P .. 'totals', name, 1) end

-- Adds to the stream of events; `why` says why an attempt ended, or is nil.
local function event(name, id, from, to, fence, agent, why)
  if why and why ~= '' then
    call('XADD', P .. 'events', 'MAXLEN', '~', event_limit, '*', 'event', name, 'job', id, 'from', from, 'to', to, 'fence',
         fence, 'agent', agent, 'why', why)
  else
    call('XADD', P .. 'events', 'MAXLEN', '~', event_limit, '*', 'event', name, 'job', id, 'from', from, 'to', to, 'fence',
         fence, 'agent', agent)
  end
end

-- Returns why an attempt ended that leaves the fields `new`, in at most 200 bytes: the first line of its error and the
-- last, which is what its log says last; without an error, the reason. Nil where it has simply succeeded.
local function why_it_ended(to, new, old)
  local stopped, text, reason
  for i = 1, #new, 2 do
    local field = new[i]
    if field == 'stopped' then stopped = new[i + 1] end
    if field == 'error' then text = new[i + 1] end
    if field == 'reason' then reason = new[i + 1] end
  end
  if to == 'succeeded' then return stopped == '1' and (old.reason or '') or nil end
  if (text or '') == '' then return reason end
  local first = string.match(text, '^[^\n]*')
  local last = string.reverse(string.match(string.reverse(text), '^\n*([^\n]*)'))
  if last ~= '' and last ~= first then first = first .. ': ' .. last end
  return string.sub(first, 1, 200)
end

-- Returns where a job waits: one sorted set for each demand of CPUs and GPUs and each program, so that a claim looks at
-- the first of each set that fits, however many jobs wait. The number of submission keeps a job's place over retries.
local MOVING = {'spec', 'lease', 'ranks', 'cpus', 'gpus', 'priority', 'sequence', 'state', 'sweep'}  -- what it needs
local function place(f)
  local ranks = num(f.ranks or 1)
  local shape = 'c' .. int(ranks * num(f.cpus or 1)) .. 'g' .. int(ranks * num(f.gpus))
  local program = string.match(f.program or '', '^%x+$')
  if program then shape = shape .. 'p' .. program end
  return shape, int(num(f.sequence) - num(f.priority) * 2 ^ 40)
end

-- The proposer of a Bayesian search reads a trial again where it is named here.
local function note_trial(sweep, id) call('RPUSH', sweep_key(sweep) .. ':changes', id) end

-- Moves a job from one state to another with all that is indexed by state; fast_paths/finish.lua does the same for the
-- usual success. `new` is a list of fields and values that change with it, `f` what is known of the job: all fields
-- where it ends, and fence and agent as they will be. `claimed`: where a job waited that is claimed. A lease (active)
-- and the time when it is due (delayed) are added by the caller.
local function enter_state(id, to, name, new, f, claimed)
  local old = f or (FINAL[to] and record(id) or some(id, MOVING))
  new = new or {}
  local from, sweep, at = old.state or '', old.sweep or '', int(now)
  if from ~= '' then call('ZREM', P .. 'state:' .. from, id) end
  -- Where the clock is behind for a while, what ends then is not old when it comes back. From the first end on the clock
  -- is followed, or the first reaping would believe whatever it says.
  call('ZADD', P .. 'state:' .. to, FINAL[to] and int(math.max(now, trusted_now(true))) or at, id)
  if claimed then
    call('ZREM', P .. 'waiting:' .. claimed, id)
  elseif from == 'waiting' or from == 'held' or to == 'waiting' or to == 'held' then
    local shape, score = place(old)
    if from == 'waiting' then call('ZREM', P .. 'waiting:' .. shape, id) end
    if from == 'held' then
      call('ZREM', P .. 'held:' .. sweep, id)
      if call('EXISTS', P .. 'held:' .. sweep) == 0 then call('SREM', P .. 'held', sweep) end
    end
    if to == 'waiting' then
      woken = woken + 1
      call('ZADD', P .. 'waiting:' .. shape, score, id)
      call('SADD', P .. 'shapes', shape)
    end
    if to == 'held' then
      call('ZADD', P .. 'held:' .. sweep, score, id)
      call('SADD', P .. 'held', sweep)
    end
  end
  local why
  if from == 'active' then
    call('ZREM', P .. 'leases', id)
    why = why_it_ended(to, new, old)
  end
  if from == 'delayed' then
    call('ZREM', P .. 'delayed', id)
    add(new, 'due_ms', '')
  end
  add(new, 'state', to)
  -- A first claim says when by itself.
  if not claimed or old.updated_ms then add(new, FINAL[to] and 'finished_ms' or 'updated_ms', at) end
  if ended_badly(to) then add(new, 'updated_ms', at) end
  if FINAL[to] then settle_down(id, to, new, old) else set(id, unpack(new)) end
  if (FINAL[to] or FINAL[from]) and sweep_of(sweep).method == 'bayes' then note_trial(sweep, id) end
  event(name, id, from, to, old.fence or '0', old.agent or '', why)
end

-- Makes a job wait for `ms` before it waits for an agent.
local function delay(id, ms, name, new, f)
  local due = int(now + math.floor(ms))
  add(new, 'due_ms', due)
  enter_state(id, 'delayed', name, new, f)
  call('ZADD', P .. 'delayed', due, id)
end

-- Returns a job, other than `except`, that this one needs and that ended without success, or nil.
local function failed_need(id, except)
  for _, need in ipairs(list(some(id, {'spec', 'after'}).after)) do
    if need ~= except and call('SISMEMBER', children_key(need), id) == 1 and ended_badly(get(need, 'state')) then
      return need
    end
  end
  return nil
end

local function cancel_one(id, name, reason, by)
  count('cancelled')
  enter_state(id, 'cancelled', name, {'reason', reason, 'cancelled_by', by})
end

-- Brings the jobs that wait for a job in line with its state: success unblocks them, another end cancels them and those
-- that wait for them, and a retry blocks those again that were cancelled because of it. Each step is good for itself and
-- can be repeated; what exceeds the bound stays in {P}fallout for reap.lua. Returns how many were cancelled.
local function settle(first)
  local line, cancelled = {first}, 0
  local at = 1
  while line[at] do
    local parent = line[at]
    local children = call('SMEMBERS', children_key(parent))
    local state = children[1] and get(parent, 'state')
    table.sort(children)
    for _, child in ipairs(children) do
      if settling <= 0 then
        call('SADD', P .. 'fallout', parent)
        break
      end
      local f = fields(job_key(child), 'state', 'cancelled_by')
      if state == 'succeeded' then
        settling = settling - 1
        call('SREM', children_key(parent), child)
        if f[1] then
          local pending = num(get(child, 'pending')) - 1
          set(child, 'pending', int(pending))
          if pending <= 0 and f[1] == 'blocked' then enter_state(child, 'waiting', 'unblock') end
        end
      elseif FINAL[state] then
        if f[1] == 'blocked' then
          settling = settling - 1
          cancelled = cancelled + 1
          cancel_one(child, 'cancel', 'job ' .. parent .. ', which it needs, ended as ' .. state, parent)
          line[#line + 1] = child
        end
      elseif f[1] == 'cancelled' and f[2] == parent then
        settling = settling - 1
        local other = failed_need(child, parent)
        if other then
          set(child, 'cancelled_by', other)
        else
          enter_state(child, 'blocked', 'retry', {'cancelled_by', '', 'reason', '', 'finished_ms', ''})
          line[#line + 1] = child
        end
      end
    end
    at = at + 1
  end
  return cancelled
end

-- Ends a job whose record nobody can read, so that it ends no agent after the other.
local function end_unreadable(id, what, f)
  count('unreadable')
  count('dead')
  enter_state(id, 'dead', 'unreadable', {'reason', 'its record cannot be read', 'error', what}, f)
  settle(id)
end

local function cancel_now(id, name, reason)
  cancel_one(id, name, reason, '')
  return 1 + settle(id)
end

-- Cancels a job at once where nobody works on it; an active one is asked, and its agent sees it at the next renewal or
-- report. Returns how many were cancelled or asked.
local function cancel_or_ask(id, reason)
  local f = some(id, {'lease', 'state', 'cancel'})
  if not f.state or FINAL[f.state] then return 0 end
  if f.state ~= 'active' then return cancel_now(id, 'cancel', reason) end
  if f.cancel == '1' then return 0 end
  set(id, 'cancel', '1', 'updated_ms', int(now))
  event('cancel', id, 'active', 'active', f.fence or '0', f.agent or '')
  return 1
end

-- Continues the cancellation of a sweep, from its last job to its first, so that jobs that are forgotten meanwhile move no
-- others past it. Returns whether there is more.
local function cancel_batch(sweep)
  local left = num(call('ZSCORE', P .. 'cancelling', sweep))
  local from = math.max(0, left - BATCH)
  local ids, changed = left > 0 and call('ZRANGE', sweep_key(sweep) .. ':jobs', from, left - 1) or {}, 0
  for i = #ids, 1, -1 do changed = changed + cancel_or_ask(ids[i], 'its sweep was cancelled') end
  if changed > 0 then
    local before = num(fields(sweep_key(sweep), 'cancelled_jobs')[1])
    call('HSET', sweep_key(sweep), 'cancelled_jobs', int(before + changed))
  end
  if from > 0 then
    call('ZADD', P .. 'cancelling', int(from), sweep)
  else
    call('ZREM', P .. 'cancelling', sweep)
  end
  return from > 0
end

-- Moves jobs from one state to waiting. What is in the index and not in that state, nothing of ours put there.
local function move_waiting(ids, from, index, name)
  for _, id in ipairs(ids) do
    if get(id, 'state') == from then enter_state(id, 'waiting', name) else call('ZREM', index, id) end
  end
  return #ids
end

-- Makes retries that are due wait for an agent again, with the place that they had.
local function promote()
  local due = call('ZRANGEBYSCORE', P .. 'delayed', '-inf', int(now), 'LIMIT', 0, BATCH)
  return move_waiting(due, 'delayed', P .. 'delayed', 'promote')
end

local function release_held(sweep)
  local index = P .. 'held:' .. sweep
  return move_waiting(call('ZRANGE', index, 0, BATCH - 1), 'held', index, 'release')
end
