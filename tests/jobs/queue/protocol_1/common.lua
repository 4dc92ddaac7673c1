-- Stands in front of every script, after the clock.
-- KEYS[1] is the prefix with its hash tag, '{foretime}:'. All other keys are derived from it and so lie in its slot: a
-- script may touch them in a cluster, and one ACL pattern covers them. ARGV[1] is the length of the event stream.
-- Redis runs a script alone and writes all its effects or, after a crash, none; each is bounded in work, and answers
-- that there is more where a bound was reached.
local P = KEYS[1]
local call = redis.call
local BATCH = 64       -- jobs that one call moves for one reason
local CHILDREN = 1000  -- jobs that may wait for one job
local SETTLE = 256     -- of these, how many one call moves
local now = clock_ms()

-- Numbers of up to 53 bits as text; Lua's own conversion rounds to 14 digits.
local function int(x) return string.format('%.0f', x) end
local function num(x) return tonumber(x or 0) or 0 end
local function job_key(id) return P .. 'job:' .. id end
local function children_key(id) return P .. 'job:' .. id .. ':children' end
local function sweep_key(id) return P .. 'sweep:' .. id end
local function set(id, ...) call('HSET', job_key(id), ...) end
local function get(id, field) return call('HGET', job_key(id), field) or '' end
local function sweep_state(sweep)
  if sweep == '' then return '' end
  return call('HGET', sweep_key(sweep), 'state') or ''
end

local FINAL = {succeeded = true, failed = true, cancelled = true, dead = true}
local function ended_badly(state) return FINAL[state] and state ~= 'succeeded' end

local function count(name) call('HINCRBY', P .. 'totals', name, 1) end

local function event(name, id, from, to, fence, agent)
  call('XADD', P .. 'events', 'MAXLEN', '~', ARGV[1], '*', 'event', name, 'job', id, 'from', from, 'to', to,
       'fence', fence, 'agent', agent)
end

-- Where a job waits: one sorted set for each demand of CPUs and GPUs, so that a claim looks at the first of each set
-- that fits, however many jobs wait. The number of submission keeps a job's place over retries.
local function place(id)
  local f = call('HMGET', job_key(id), 'ranks', 'cpus', 'gpus', 'priority', 'sequence')
  local shape = 'c' .. int(num(f[1]) * num(f[2])) .. 'g' .. int(num(f[1]) * num(f[3]))
  return shape, int(num(f[5]) - num(f[4]) * 2 ^ 40)
end

-- Moves a job from one state to another with all that is indexed by state; the only place that does. A lease (active)
-- and the time when it is due (delayed) are added by the caller.
local function enter_state(id, to, name)
  local f = call('HMGET', job_key(id), 'state', 'fence', 'agent', 'sweep')
  local from, sweep = f[1] or '', f[4] or ''
  if from ~= '' then call('ZREM', P .. 'state:' .. from, id) end
  call('ZADD', P .. 'state:' .. to, int(now), id)
  if from == 'waiting' or from == 'held' or to == 'waiting' or to == 'held' then
    local shape, score = place(id)
    if from == 'waiting' then call('ZREM', P .. 'waiting:' .. shape, id) end
    if from == 'held' then
      call('ZREM', P .. 'held:' .. sweep, id)
      if call('EXISTS', P .. 'held:' .. sweep) == 0 then call('SREM', P .. 'held', sweep) end
    end
    if to == 'waiting' then
      call('ZADD', P .. 'waiting:' .. shape, score, id)
      call('SADD', P .. 'shapes', shape)
    end
    if to == 'held' then
      call('ZADD', P .. 'held:' .. sweep, score, id)
      call('SADD', P .. 'held', sweep)
    end
  end
  if from == 'active' then call('ZREM', P .. 'leases', id) end
  if from == 'delayed' then
    call('ZREM', P .. 'delayed', id)
    set(id, 'due_ms', '')
  end
  set(id, 'state', to, 'updated_ms', int(now))
  if FINAL[to] then set(id, 'finished_ms', int(now), 'cancel', '') end
  event(name, id, from, to, f[2] or '0', f[3] or '')
end

-- Every call of an agent says that agents can reach Redis. A silence in which leases expired is remembered (the last 8):
-- nobody could renew them, so reap.lua gives them one more term instead of blaming their holders.
local function touch()
  local before = num(call('GET', P .. 'alive_ms'))
  if before > 0 and now - before > 1000 and call('ZCOUNT', P .. 'leases', int(before), int(now)) > 0 then
    call('RPUSH', P .. 'silences', int(before) .. ' ' .. int(now))
    call('LTRIM', P .. 'silences', -8, -1)
  end
  call('SET', P .. 'alive_ms', int(now))
end

-- Only the newest lease writes, and only while the job is active. The token tells two leases of one fence apart: with
-- appendfsync everysec Redis may forget its last second, and then gives a fence for the second time.
local function holds(id, fence, token, agent)
  local f = call('HMGET', job_key(id), 'state', 'fence', 'token')
  if f[1] == 'active' and f[2] == fence and f[3] == token then return true end
  count('refused')
  event('refuse', id, f[1] or '', f[1] or '', fence, agent)
  return false
end

local function directive(id)
  local f = call('HMGET', job_key(id), 'cancel', 'stop')
  if f[1] == '1' then return {'cancel'} end
  if f[2] == '1' then return {'stop'} end
  return {'proceed'}
end

-- The value of a job's metric, and whether it is the best one yet.
local function note_objective(id, objective)
  local f = call('HMGET', job_key(id), 'goal', 'best_objective')
  local value, best = tonumber(objective), tonumber(f[2] or '')
  set(id, 'objective', objective)
  if not best or (f[1] == 'maximize' and value > best) or (f[1] ~= 'maximize' and value < best) then
    set(id, 'best_objective', objective)
  end
end

-- Which job in the way keeps a cancelled one from being blocked again.
local function failed_need(id, except)
  for _, need in ipairs(cjson.decode(call('HGET', job_key(id), 'after') or '[]')) do
    if need ~= except and call('SISMEMBER', children_key(need), id) == 1 and ended_badly(get(need, 'state')) then
      return need
    end
  end
  return nil
end

local function cancel_one(id, name, reason, by)
  set(id, 'reason', reason, 'cancelled_by', by)
  count('cancelled')
  enter_state(id, 'cancelled', name)
end

-- Brings the jobs that wait for a job in line with its state: success unblocks them, another end cancels them and those
-- that wait for them, and a retry blocks those again that were cancelled because of it. Each step is good for itself and
-- can be repeated; what exceeds the bound stays in {P}fallout for reap.lua. Returns how many were cancelled.
local function settle(first)
  local line, budget, cancelled = {first}, SETTLE, 0
  local at = 1
  while line[at] do
    local parent = line[at]
    local state = get(parent, 'state')
    local children = call('SMEMBERS', children_key(parent))
    table.sort(children)
    for _, child in ipairs(children) do
      if budget <= 0 then
        call('SADD', P .. 'fallout', parent)
        break
      end
      local f = call('HMGET', job_key(child), 'state', 'cancelled_by')
      if state == 'succeeded' then
        budget = budget - 1
        call('SREM', children_key(parent), child)
        if f[1] and call('HINCRBY', job_key(child), 'pending', -1) <= 0 and f[1] == 'blocked' then
          enter_state(child, 'waiting', 'unblock')
        end
      elseif FINAL[state] then
        if f[1] == 'blocked' then
          budget = budget - 1
          cancelled = cancelled + 1
          cancel_one(child, 'cancel', 'job ' .. parent .. ', which it needs, ended as ' .. state, parent)
          line[#line + 1] = child
        end
      elseif f[1] == 'cancelled' and f[2] == parent then
        budget = budget - 1
        local other = failed_need(child, parent)
        if other then
          set(child, 'cancelled_by', other)
        else
          set(child, 'cancelled_by', '', 'reason', '', 'finished_ms', '')
          enter_state(child, 'blocked', 'retry')
          line[#line + 1] = child
        end
      end
    end
    at = at + 1
  end
  return cancelled
end

local function cancel_now(id, name, reason)
  cancel_one(id, name, reason, '')
  return 1 + settle(id)
end

-- At once where nobody works on it; an active one is asked, and its agent sees it at the next renewal or report.
local function cancel_or_ask(id, reason)
  local f = call('HMGET', job_key(id), 'state', 'cancel', 'fence', 'agent')
  if not f[1] or FINAL[f[1]] then return 0 end
  if f[1] ~= 'active' then return cancel_now(id, 'cancel', reason) end
  if f[2] == '1' then return 0 end
  set(id, 'cancel', '1', 'updated_ms', int(now))
  event('cancel', id, 'active', 'active', f[3], f[4])
  return 1
end

-- Retries that are due wait again, with the place that they had.
local function promote()
  local due = call('ZRANGEBYSCORE', P .. 'delayed', '-inf', int(now), 'LIMIT', 0, BATCH)
  for _, id in ipairs(due) do enter_state(id, 'waiting', 'promote') end
  return #due
end

local function release_held(sweep)
  local ids = call('ZRANGE', P .. 'held:' .. sweep, 0, BATCH - 1)
  for _, id in ipairs(ids) do enter_state(id, 'waiting', 'release') end
  return #ids
end

local function refused(message) return {'refused', message} end
local function unknown_job(id) return refused('job ' .. id .. ' is unknown') end
local function unknown_sweep(id) return refused('sweep ' .. id .. ' is unknown') end
