-- Stands in front of every script, after the clock.
-- KEYS[1] is the prefix with its hash tag, '{foretime}:'. All other keys are derived from it and so lie in its slot: a
-- script may touch them in a cluster, and one ACL pattern covers them. ARGV[1] is the length of the event stream.
-- The first line of a script holds its flags for Redis: all but those that add to the queue run when memory is at its
-- limit, because they are what frees it.
-- Redis runs a script alone and writes all its effects or, after a crash, none; each is bounded in work, and answers
-- that there is more where a bound was reached.
local P = KEYS[1]
local call = redis.call
local BATCH = 64       -- jobs that one call moves for one reason
local CHILDREN = 1000  -- jobs that may wait for one job
local settling = 256   -- of these, how many this call may still move
local now = clock_ms()
local bare           -- a job that nobody waits for, where nothing else is up either (finish_claim.lua)
local woken = 0        -- jobs that this call put into waiting; jobs/queue/redis_queue.cpp announces them at its end

-- A queue of a later protocol may hold what this program would break: it changes nothing there.
-- What most calls ask of the queue as a whole, in one command: each takes longer on its way than at work.
local queue = call('HMGET', P .. 'settings', 'protocol', 'alive_ms', 'clock_seen', 'clock_trusted')
local least = tonumber(queue[1] or '1') or 1
if least > PROTOCOL then
  return {'refused', 'the queue ' .. P .. ' needs programs of protocol ' .. least .. ', and this one has protocol ' ..
          PROTOCOL .. ': use the newer foretime here too'}
end
-- Programs before protocol 3 cannot read what this one writes, which reads all that they wrote: from here on the queue
-- refuses them. Where their agents still work, nobody takes their jobs from them.
if least < 3 then
  local newest = call('ZREVRANGE', P .. 'leases', 0, 0, 'WITHSCORES')
  if newest[2] and tonumber(newest[2]) >= now then
    return {'refused', 'the queue ' .. P .. ' is worked on by agents of an earlier foretime, which would not understand what this ' ..
            'one writes: end them (SIGTERM: their jobs wait for the next agent), and then try again'}
  end
  call('HSET', P .. 'settings', 'protocol', '3')
  -- The first programs ask for no protocol: they end at a key that is not of the type that they know.
  call('DEL', P .. 'alive_ms')
  call('HSET', P .. 'alive_ms', 'protocol', '3')
end

-- Whole numbers of up to 53 bits as text; Lua's own conversion rounds to 14 digits.
local format = string.format
local function int(x) return format('%d', x) end
-- 0 for what is no number of up to 53 bits. No field of a record, however damaged, may end a script: what it was about
-- to do for other jobs would never be done.
local function num(x)
  local n = tonumber(x or 0) or 0
  return n >= -2 ^ 53 and n <= 2 ^ 53 and n or 0
end
-- The texts in a JSON array, or in one that was decoded; with `kind` its numbers, say.
local function list(text, kind)
  local sound, values = true, text
  if type(text) ~= 'table' then sound, values = pcall(cjson.decode, text or '[]') end
  local texts = {}
  for _, value in ipairs(sound and type(values) == 'table' and values or {}) do
    if type(value) == (kind or 'string') then texts[#texts + 1] = value end
  end
  return texts
end
local function job_key(id) return P .. 'job:' .. id end
local function children_key(id) return P .. 'job:' .. id .. ':children' end
local function users_key(id) return P .. 'job:' .. id .. ':users' end
local function sweep_key(id) return P .. 'sweep:' .. id end
local function set(id, ...) call('HSET', job_key(id), ...) end
-- Fields of a hash, false where it has none; all are false where the key is of another type.
local function fields(key, ...)
  local f = redis.pcall('HMGET', key, ...)
  return f.err and {} or f
end
local LEASED = {'fence', 'token', 'attempt', 'claimed_ms', 'term_ms', 'agent'}
-- What was submitted and never changes stands in one field, `spec` (JSON), and what a claim leaves in another, `lease`
-- (FENCE TOKEN ATTEMPT CLAIMED_MS TERM_MS AGENT): few long fields cost less than many short ones. Adds to `f` what these
-- say, in such a way that `pairs` passes it by. Where a job has a field of its own it rules; those of earlier programs
-- have nothing else.
local function unpacked(f)
  local packed = {}
  if f.spec then
    local sound, spec = pcall(cjson.decode, f.spec)
    for name, value in pairs(sound and type(spec) == 'table' and spec or {}) do
      if type(value) == 'string' or type(value) == 'number' or name == 'after' then packed[name] = value end
    end
  end
  if f.lease then
    packed.fence, packed.token, packed.attempt, packed.claimed_ms, packed.term_ms, packed.agent =
        string.match(f.lease, '^(%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
    for _, name in ipairs(LEASED) do
      if f[name] == '' then f[name] = nil end
    end
  end
  return setmetatable(f, {__index = packed})
end
-- All fields of a job by name, and as Redis answers them.
local function record(id)
  local all = redis.pcall('HGETALL', job_key(id))
  if all.err then return {}, {} end
  local f = {}
  for i = 1, #all, 2 do f[all[i]] = all[i + 1] end
  return unpacked(f), all
end
-- Some of them by name; `spec` and `lease` are among them where what they say is asked for.
local function some(id, names)
  local values, f = fields(job_key(id), unpack(names)), {}
  for i, name in ipairs(names) do f[name] = values[i] or nil end
  return unpacked(f)
end
-- Bytes of memory that the record of a job takes where they are more than LARGEST_RECORD: nobody could read it. Nil: they
-- are not, or this user may not ask.
local function oversize(id)
  local bytes = redis.pcall('MEMORY', 'USAGE', job_key(id), 'SAMPLES', '0')
  return type(bytes) == 'number' and bytes > LARGEST_RECORD and bytes or nil
end
-- Of a record that is too large stays by what its job is known and found, as far as these fields are short. The others
-- are removed without being read. Returns what is wrong, in words.
local function cut_oversized(id, bytes)
  local key, kept, k, long = job_key(id), {}, 0, ''
  for _, name in ipairs({'format', 'kind', 'name', 'sweep', 'trial', 'state', 'sequence', 'priority', 'ranks', 'most_ranks', 'cpus',
                         'gpus', 'program', 'max_attempts', 'after', 'metric', 'goal', 'submitted_ms', 'pending', 'spec', 'lease', 'fence',
                         'agent', 'failures', 'lost', 'results', 'step', 'total_steps', 'log_lines', 'parameters', 'settings',
                         'metrics', 'error', 'checkpoint', 'history'}) do
    local size = call('HSTRLEN', key, name)
    if size > LARGEST_RECORD / 8 then
      long = long .. ', field ' .. name .. ' ' .. int(size) .. ' bytes'
    elseif size > 0 then
      kept[k + 1], kept[k + 2], k = name, call('HGET', key, name), k + 2
    end
  end
  call('DEL', key)
  if k > 0 then call('HSET', key, unpack(kept, 1, k)) end
  return 'the record takes ' .. int(bytes) .. ' bytes of memory, expected at most ' .. int(LARGEST_RECORD) .. long
end
local MOVING = {'spec', 'lease', 'ranks', 'cpus', 'gpus', 'priority', 'sequence', 'format', 'state', 'fence', 'agent', 'sweep'}
local function get(id, field) return fields(job_key(id), field)[1] or '' end
-- What this call asked of sweeps: it changes none of that and asks again.
local sweeps = {}
local function sweep_of(id)
  local s = sweeps[id]
  if not s then
    local values = id == '' and {} or fields(sweep_key(id), 'state', 'method', 'created_ms')
    s = {state = values[1] or '', method = values[2] or '', created = values[3] or ''}
    sweeps[id] = s
  end
  return s
end
local function sweep_state(id) return sweep_of(id).state end

local function count(name) call('HINCRBY', P .. 'totals', name, 1) end

-- `why`: nil, or why an attempt ended.
local function event(name, id, from, to, fence, agent, why)
  if why and why ~= '' then
    call('XADD', P .. 'events', 'MAXLEN', '~', ARGV[1], '*', 'event', name, 'job', id, 'from', from, 'to', to, 'fence', fence,
         'agent', agent, 'why', why)
  else
    call('XADD', P .. 'events', 'MAXLEN', '~', ARGV[1], '*', 'event', name, 'job', id, 'from', from, 'to', to, 'fence', fence,
         'agent', agent)
  end
end

-- Of an attempt that ends with fields `new`, in at most 200 bytes: the first line of its error and the last, which is what
-- its log says last; without an error, the reason. Nil where it has simply succeeded.
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

-- Where a job waits: one sorted set for each demand of CPUs and GPUs and each program, so that a claim looks at the first
-- of each set that fits, however many jobs wait. The number of submission keeps a job's place over retries. Records of a format
-- above 1 wait in sets of their own, which programs that cannot read them do not look at.
local function place(f)
  local ranks, version = num(f.ranks or 1), num(f.format)
  local shape = 'c' .. int(ranks * num(f.cpus or 1)) .. 'g' .. int(ranks * num(f.gpus))
  local program = string.match(f.program or '', '^%x+$')
  if program then shape = shape .. 'p' .. program end
  if version > 1 then shape = shape .. 'v' .. int(version) end
  return shape, int(num(f.sequence) - num(f.priority) * 2 ^ 40)
end
local now_text = int(now)

local FINAL = {succeeded = true, failed = true, cancelled = true, dead = true}
local function ended_badly(state) return FINAL[state] and state ~= 'succeeded' end

-- Whoever follows a job sees the end of its log for this long after it; no more than so many jobs keep theirs.
local LOG_LINGERS, LINGERING_LOGS = 60000, 1000
-- What a job that ended a while ago still needs of its log: its agent kept all of it in output.log.
local function trim_log(id)
  call('ZREM', P .. 'logs', id)
  local state, key = get(id, 'state'), job_key(id) .. ':log'
  if not FINAL[state] then return end
  local lines, bytes = 50, 8192
  if state == 'succeeded' then lines, bytes = 2, 160 end
  local last = redis.pcall('LRANGE', key, -lines, -1)
  if last.err then return end
  local kept = 0
  while kept < #last and (kept == 0 or bytes >= #last[#last - kept]) do
    bytes = bytes - #last[#last - kept]
    kept = kept + 1
  end
  if kept > 0 then call('LTRIM', key, -kept, -1) end
end

-- How far the clock is trusted where something is forgotten for its age: it follows the clock, forward and back, while
-- agents call, in steps of at most a minute, and a day for each hour of these. So a clock that is 40 days ahead or
-- behind for some minutes forgets nothing, and a queue that nobody used for a month forgets what it must within a day.
local CLOCK_STEP, CLOCK_RATE = 60000, 24
local function trusted_now(write)
  local seen, before, trusted = num(queue[3]), num(queue[4]), now
  if seen == 0 then
    local old = fields(P .. 'clock', 'seen', 'trusted')  -- where earlier programs keep it
    seen, before = num(old[1]), num(old[2])
  end
  if seen ~= 0 then
    local reach = CLOCK_RATE * math.min(math.abs(now - seen), CLOCK_STEP)
    trusted = math.max(before - reach, math.min(before + reach, now))
  end
  if write and (seen == 0 or math.abs(now - seen) >= CLOCK_STEP / 2) then
    queue[3], queue[4] = int(now), int(trusted)
    call('HSET', P .. 'settings', 'clock_seen', queue[3], 'clock_trusted', queue[4])
  end
  return trusted
end

-- Of a job that has ended stays what people and leaderboards ask for, and what a retry needs. `new` are the fields that
-- change, as a list, `old` all fields before that, which those of `new` leave.
local function settle_down(id, state, new, old)
  local succeeded, history, token, log_lines = state == 'succeeded', old.history or '', old.token or '', old.log_lines
  local ended = {token = true, term_ms = true, graced = true, cancel = true, due_ms = true, iteration = true,
                 eta_s = succeeded, loss = succeeded, stop = succeeded, error = succeeded,
                 exit_code = succeeded, updated_ms = succeeded, failed_on = succeeded, lease = not succeeded}
  -- What may be tried again keeps no lease that its holder could come back to.
  for _, name in ipairs(not succeeded and old.lease and LEASED or {}) do
    if name ~= 'token' and name ~= 'term_ms' and not rawget(old, name) and old[name] then
      new[#new + 1] = name
      new[#new + 1] = old[name]
    end
  end
  -- What a missing field means.
  local usual = succeeded and {ranks = '1', cpus = '1', max_attempts = '3', attempt = '1', total_steps = old.step,
                               best_objective = old.objective} or {}
  -- The newest lease says it already.
  if succeeded and not rawget(old, 'fence') and not rawget(old, 'token') and token ~= '' then
    usual.finished_by = old.fence .. ':' .. token
  end
  local kept, gone, k, g = {'', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', ''}, {'', '', '', '', '', '', '', '', '', ''}, 0, 0
  for i = 1, #new, 2 do
    local name, value = new[i], new[i + 1]
    if succeeded and name == 'objective' then usual.best_objective = value end  -- which comes after it
    if value ~= '' and not ended[name] and value ~= usual[name] then
      kept[k + 1], kept[k + 2], k = name, value, k + 2
    elseif old[name] then
      g = g + 1
      gone[g] = name
    end
    old[name] = nil
  end
  for name, value in pairs(old) do
    if value == '' or ended[name] or value == usual[name] then
      g = g + 1
      gone[g] = name
    end
  end
  if token ~= '' then call('DEL', P .. 'token:' .. token) end
  -- First what goes: Redis makes a hash with room for the fields that it has when the first long one comes.
  if g > 0 and (history ~= '' or type(redis.pcall('HDEL', job_key(id), unpack(gone, 1, g))) == 'table') then
    -- A long history has made the hash large, and only a new one is compact again; or a user with the rights of earlier
    -- versions.
    local all = record(id)
    for i = 1, g do all[gone[i]] = nil end
    for i = 1, k, 2 do all[kept[i]] = kept[i + 1] end
    local long = {}
    kept, k = {}, 0
    for name, value in pairs(all) do
      if #value > 64 then
        long[#long + 1] = name
      else
        kept[k + 1], kept[k + 2], k = name, value, k + 2
      end
    end
    for _, name in ipairs(long) do kept[k + 1], kept[k + 2], k = name, all[name], k + 2 end
    call('DEL', job_key(id))
  end
  set(id, unpack(kept, 1, k))
  if num(log_lines) > 0 then
    call('ZADD', P .. 'logs', now_text, id)
    if call('ZCARD', P .. 'logs') > LINGERING_LOGS then trim_log(call('ZRANGE', P .. 'logs', 0, 0)[1]) end
  end
end

-- The proposer of a Bayesian search reads a trial anew where it is named here.
local function note_trial(sweep, id) call('RPUSH', sweep_key(sweep) .. ':changes', id) end

-- Moves a job from one state to another with all that is indexed by state; the only place that does. `new` is a list
-- of fields and values that change with it, `f` what is known of the job: all fields where it ends, and fence and agent
-- as they will be. `claimed`: where a job waited that is claimed. A lease (active) and the time when it is due (delayed)
-- are added by the caller.
local function enter_state(id, to, name, new, f, claimed)
  local old = f or (FINAL[to] and record(id) or some(id, MOVING))
  new = new or {}
  local from, sweep, at = old.state or '', old.sweep or '', now_text
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
  local n = #new
  if from == 'delayed' then
    call('ZREM', P .. 'delayed', id)
    new[n + 1], new[n + 2], n = 'due_ms', '', n + 2
  end
  new[n + 1], new[n + 2] = 'state', to
  -- A first claim says when by itself.
  if not claimed or old.updated_ms then new[n + 3], new[n + 4] = FINAL[to] and 'finished_ms' or 'updated_ms', at end
  if FINAL[to] and to ~= 'succeeded' then new[n + 5], new[n + 6] = 'updated_ms', at end
  if FINAL[to] then settle_down(id, to, new, old) else set(id, unpack(new)) end
  if (FINAL[to] or FINAL[from]) and sweep_of(sweep).method == 'bayes' then note_trial(sweep, id) end
  event(name, id, from, to, old.fence or '0', old.agent or '', why)
end

-- Waits for a while before it waits for an agent.
local function delay(id, ms, name, new, f)
  local due = int(now + math.floor(ms))
  new[#new + 1] = 'due_ms'
  new[#new + 1] = due
  enter_state(id, 'delayed', name, new, f)
  bare = nil
  call('ZADD', P .. 'delayed', due, id)
end

-- Calls of agents say that agents can reach Redis; a few times a second is enough, and where nothing is leased nobody asks. A
-- silence in which leases expired is remembered (the last 8): nobody could renew them, so reap.lua gives them one more
-- term instead of blaming their holders.
local touched = false
local function touch(leasing)
  if touched then return end
  local before = num(queue[2])
  if now < before then call('DEL', P .. 'silences') end  -- the clock was set back: they may lie ahead
  touched = before > 0 and now >= before and now - before <= 250
  if touched or not leasing and call('EXISTS', P .. 'leases') == 0 then return end
  touched = true
  if before > 0 and now - before > 1000 and call('ZCOUNT', P .. 'leases', int(before), int(now)) > 0 then
    call('RPUSH', P .. 'silences', int(before) .. ' ' .. int(now))
    call('LTRIM', P .. 'silences', -8, -1)
  end
  call('HSET', P .. 'settings', 'alive_ms', now_text)
end

-- Only the newest lease writes, and only while the job is active. The token tells two leases of one fence apart: with
-- appendfsync everysec Redis may forget its last second, and then gives a fence for the second time.
-- A lease that was lost comes back to its holder while nobody has taken the job: what is newest is still what its attempt
-- knows, and a cluster whose messages are late does not do all work anew.
-- `f`: at least the job's state, fence and token; a lease that comes back brings the other fields.
local HELD = {'lease', 'state', 'fence', 'token', 'cancel', 'stop', 'term_ms', 'graced'}
local function holds(id, fence, token, agent, f)
  local newest = f.fence == fence and f.token == token
  if newest and f.state == 'active' then return true end
  if newest and (f.state == 'waiting' or f.state == 'delayed') then
    local all = record(id)
    if all.finished_by ~= fence .. ':' .. token then
      local term, lost = num(all.term_ms), math.max(0, num(all.lost) - 1)
      local new = {'graced', '', 'lost', int(lost)}
      if all.stop ~= '1' then new[5], new[6] = 'reason', '' end
      if all.lost_shared then
        new[#new + 1] = 'lost_shared'
        new[#new + 1] = int(math.min(lost, num(all.lost_shared)))
      end
      enter_state(id, 'active', 'regain', new, all)
      call('ZADD', P .. 'leases', int(now + term), id)
      call('SET', P .. 'token:' .. token, id, 'PX', int(lifetime_ms(math.max(term, 1))))
      count('regained')
      local again = record(id)
      for name, value in pairs(again) do f[name] = value end
      setmetatable(f, getmetatable(again))
      return true
    end
  end
  count('refused')
  event('refuse', id, f.state or '', f.state or '', fence, agent)
  return false
end

local function directive(f)
  if f.cancel == '1' then return {'cancel'} end
  if f.stop == '1' then return {'stop'} end
  return {'proceed'}
end

-- Adds to `new` the value of a job's metric, and the best one where it is that.
local function note_objective(new, f, objective)
  local value, best = tonumber(objective), tonumber(f.best_objective or '')
  new[#new + 1] = 'objective'
  new[#new + 1] = objective
  if not best or (f.goal == 'maximize' and value > best) or (f.goal ~= 'maximize' and value < best) then
    new[#new + 1] = 'best_objective'
    new[#new + 1] = objective
  end
end

-- Which job in the way keeps a cancelled one from being blocked again.
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
  if first == bare then return 0 end
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

-- At once where nobody works on it; an active one is asked, and its agent sees it at the next renewal or report.
local function cancel_or_ask(id, reason)
  local f = some(id, {'lease', 'state', 'cancel', 'fence', 'agent'})
  if not f.state or FINAL[f.state] then return 0 end
  if f.state ~= 'active' then return cancel_now(id, 'cancel', reason) end
  if f.cancel == '1' then return 0 end
  set(id, 'cancel', '1', 'updated_ms', int(now))
  event('cancel', id, 'active', 'active', f.fence or '0', f.agent or '')
  return 1
end

-- Goes on with the cancellation of a sweep, from its last job to its first, so that jobs that are forgotten meanwhile
-- move no others past it. True: there is more.
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

-- Counts ends of attempts that are not the job's doing: those in a row after which it got no further than before. `f`
-- are its fields; what changes is added to `new`.
local function count_in_a_row(new, f, field)
  local step, before = num(f.step), num(f[field .. '_step'])
  local further = step > before
  local times = further and 1 or num(f[field]) + 1
  for _, text in ipairs({field, int(times), field .. '_step', int(further and step or before)}) do
    new[#new + 1] = text
  end
  return times
end

-- Moves jobs from one state to waiting. What is in the index and not in that state, nothing of ours put there.
local function move_waiting(ids, from, index, name)
  for _, id in ipairs(ids) do
    if get(id, 'state') == from then enter_state(id, 'waiting', name) else call('ZREM', index, id) end
  end
  return #ids
end

-- Retries that are due wait again, with the place that they had.
local function promote()
  local due = call('ZRANGEBYSCORE', P .. 'delayed', '-inf', int(now), 'LIMIT', 0, BATCH)
  return move_waiting(due, 'delayed', P .. 'delayed', 'promote')
end

local function release_held(sweep)
  local index = P .. 'held:' .. sweep
  return move_waiting(call('ZRANGE', index, 0, BATCH - 1), 'held', index, 'release')
end

-- Parts of an artifact in Redis (jobs/queue/artifact.h).
local function drop_parts(text)
  for part in string.gmatch(text or '', '%S+') do call('DEL', P .. part) end
end

-- With its job; what lies elsewhere is removed by agents that use that store.
local function forget_artifacts(id)
  local key, bytes = job_key(id) .. ':artifacts', 0
  local all = redis.pcall('HGETALL', key)
  for i = 1, all.err and 0 or #all, 2 do
    local kind, rest = string.match(all[i], '^(%a+):(.*)$')
    if kind == 'bytes' then bytes = bytes + num(all[i + 1]) end
    if kind == 'parts' then drop_parts(all[i + 1]) end
    if kind == 'store' then call('SADD', P .. 'artifacts:gone', rest .. ' ' .. id) end
  end
  if bytes ~= 0 then call('HINCRBY', P .. 'artifacts:use', 'bytes', int(-bytes)) end
  call('DEL', key)
  call('SREM', P .. 'artifacts', id)
end

local function refused(message) return {'refused', message} end
local function unknown_job(id) return refused('job ' .. id .. ' is unknown') end
local function unknown_sweep(id) return refused('sweep ' .. id .. ' is unknown') end
