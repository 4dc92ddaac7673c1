-- Module: leases. Who holds a job, what its holder is to do, and which job an agent gets next.

-- Notes that agents can reach Redis: a few times a second is enough, and where nothing is leased nobody asks. A silence in
-- which leases expired is remembered (the last 8): nobody could renew them, so reap.lua gives them one more term instead
-- of blaming their holders.
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
  call('HSET', P .. 'settings', 'alive_ms', int(now))
end

-- Returns whether this is the newest lease of an active job; only its holder may write. The token tells two leases of one
-- fence apart: with appendfsync everysec Redis may forget its last second, and then gives a fence for the second time.
-- A lease that was lost comes back to its holder while nobody has taken the job: what is newest is still what its attempt
-- knows, and a cluster whose messages are late does not do all work again.
-- `f`: at least the fields HELD; a lease that comes back brings the others.
local HELD = {'lease', 'state', 'cancel', 'stop', 'graced'}
local function holds(id, fence, token, agent, f)
  local newest = f.fence == fence and f.token == token
  if newest and f.state == 'active' then return true end
  if newest and (f.state == 'waiting' or f.state == 'delayed') then
    local all = record(id)
    if all.finished_by ~= fence .. ':' .. token then
      local term, lost = num(all.term_ms), math.max(0, num(all.lost) - 1)
      local new = {'graced', '', 'lost', int(lost)}
      if all.stop ~= '1' then add(new, 'reason', '') end
      if all.lost_shared then add(new, 'lost_shared', int(math.min(lost, num(all.lost_shared)))) end
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

-- Returns what the holder of a job is to do.
local function directive(f)
  if f.cancel == '1' then return {'cancel'} end
  if f.stop == '1' then return {'stop'} end
  return {'proceed'}
end

-- Adds to `new` the value of a job's metric, and the best one where it is that.
local function note_objective(new, f, objective)
  local value, best = tonumber(objective), tonumber(f.best_objective or '')
  add(new, 'objective', objective)
  if not best or (f.goal == 'maximize' and value > best) or (f.goal ~= 'maximize' and value < best) then
    add(new, 'best_objective', objective)
  end
end

-- Counts ends of attempts in a row that are not the job's doing and after which it got no further than before. `f` are its
-- fields; what changes is added to `new`.
local function count_in_a_row(new, f, field)
  local step, before = num(f.step), num(f[field .. '_step'])
  local further = step > before
  local times = further and 1 or num(f[field]) + 1
  add(new, field, int(times))
  add(new, field .. '_step', int(further and step or before))
  return times
end

-- Returns how many bytes of memory the record of a job takes where they are more than LARGEST_RECORD: nobody could read
-- it. Nil: they are not, or this user may not ask.
local function oversize(id)
  local bytes = redis.pcall('MEMORY', 'USAGE', job_key(id), 'SAMPLES', '0')
  return type(bytes) == 'number' and bytes > LARGEST_RECORD and bytes or nil
end
-- Keeps of a record that is too large by what its job is known and found, as far as these fields are short. The others
-- are removed without being read. Returns what is wrong, in words.
local function cut_oversized(id, bytes)
  local key, kept, long = job_key(id), {}, ''
  for _, name in ipairs({'kind', 'name', 'sweep', 'trial', 'state', 'sequence', 'priority', 'ranks', 'most_ranks', 'cpus',
                         'gpus', 'program', 'max_attempts', 'after', 'metric', 'goal', 'submitted_ms', 'pending', 'spec',
                         'lease', 'failures', 'lost', 'results', 'step', 'total_steps', 'log_lines', 'parameters',
                         'settings', 'metrics', 'error', 'checkpoint', 'history'}) do
    local size = call('HSTRLEN', key, name)
    if size > LARGEST_RECORD / 8 then
      long = long .. ', field ' .. name .. ' ' .. int(size) .. ' bytes'
    elseif size > 0 then
      add(kept, name, call('HGET', key, name))
    end
  end
  call('DEL', key)
  if kept[1] then call('HSET', key, unpack(kept)) end
  return 'the record takes ' .. int(bytes) .. ' bytes of memory, expected at most ' .. int(LARGEST_RECORD) .. long
end

-- Returns the answer to a claim that got a job: its record, its deadline and, where it has its sweep's settings, these and
-- when the sweep was created; @sweep in place of those that the claimant knows.
local function leased(id, f, all, deadline, known_sweep)
  if f.settings ~= '@sweep' then return {'lease', id, deadline, cmsgpack.pack(all), '', ''} end
  local sweep = f.sweep or ''
  local created = sweep_of(sweep).created
  local known = known_sweep == sweep .. ' ' .. created
  local settings = known and '@sweep' or fields(sweep_key(sweep), 'settings')[1] or ''
  return {'lease', id, deadline, cmsgpack.pack(all), settings, created}
end

-- Returns how many ranks a job gets: one that says how many at most takes what is free. 0: not as many as it needs.
local function free_ranks(f, hosts, gpus)
  local least, each, gpus_each = num(f.ranks or 1), num(f.cpus or 1), num(f.gpus)
  if least < 1 or each < 1 then return 1 end  -- damaged, which the claim that takes it finds
  local most, free = math.max(least, num(f.most_ranks)), 0
  for _, host in ipairs(hosts) do free = free + math.floor(host / each) end
  if gpus_each > 0 then free = math.min(free, math.floor(gpus / gpus_each)) end
  if free < least then return 0 end
  return math.min(most, free)
end

-- Gives the lease of a job that waits in {P}waiting:`shape` to an agent. Returns the answer to its claim.
local function give_lease(id, f, all, shape, ranks, agent, token, term, known_sweep)
  touch(true)
  local fence, deadline = int(num(f.fence) + 1), int(now + term)
  local new = {'lease', lease_text(fence, token, int(num(f.failures) + 1), int(now), int(term), agent)}
  if (f.graced or '') ~= '' then add(new, 'graced', '') end
  if f.stop ~= '1' and (f.reason or '') ~= '' then add(new, 'reason', '') end
  if (f.most_ranks or '') ~= '' then add(new, 'attempt_ranks', int(math.max(ranks, num(f.ranks or 1)))) end
  f.fence, f.agent = fence, agent
  enter_state(id, 'active', 'claim', new, f, shape)
  call('ZADD', P .. 'leases', deadline, id)
  call('SET', P .. 'token:' .. token, id, 'PX', int(lifetime_ms(term)))
  count('claimed')
  if woken > 0 then woken = woken - 1 end  -- this one is taken
  local n = #all
  for i = 1, #new do all[n + i] = new[i] end  -- of a field that comes twice, the last one holds
  return leased(id, f, all, deadline, known_sweep)
end

local CLAIM_LOOKS = 1000       -- waiting jobs that one claim looks at
local LARGEST_DEMAND = 2 ^ 32  -- CPUs or GPUs of a job in all: 65,536 ranks with as many each

-- Returns whether a job that waits in {P}waiting:`shape` fits an agent with so much free that lacks some programs;
-- `lacking` is nil where it runs no programs of jobs. Demands that no job can have are of damaged records, which the claim
-- that takes them ends.
local function fits(shape, cpus, gpus, lacking)
  local c, g, program = string.match(shape, '^c(%d+)g(%d+)p?(%x*)$')
  if not c or tonumber(c) > LARGEST_DEMAND or tonumber(g) > LARGEST_DEMAND then return true end
  local runs = program == '' or lacking and not lacking[program]
  return runs and tonumber(c) <= cpus and tonumber(g) <= gpus
end

-- Claims the first waiting job that fits an agent, by priority and then by age; claim.lua names the arguments. Answers
-- lease (see `leased`), none, or again where it reached a bound.
-- A claim that finds nothing writes nothing: idle agents ask often, and each write would be an fsync.
local function claim(agent, token, free_cpus, free_gpus, term_ms, known_sweep, programs)
  local hosts, cpus, gpus, term = {}, 0, tonumber(free_gpus), tonumber(term_ms)
  for free in string.gmatch(free_cpus, '%d+') do
    hosts[#hosts + 1] = tonumber(free)
    cpus = cpus + tonumber(free)
  end
  local lacking = programs ~= '' and {} or nil
  for program in string.gmatch(programs, ' (%x+)') do lacking[program] = true end

  -- As a rule there is none of this, and one command says so.
  if call('EXISTS', P .. 'token:' .. token, P .. 'paused', P .. 'delayed') > 0 then
    -- The answer to this very claim was lost: the same lease again, rather than a second job for the same slots.
    local mine = call('GET', P .. 'token:' .. token)
    if mine then
      local f, all = record(mine)
      local deadline = call('ZSCORE', P .. 'leases', mine)
      if f.state == 'active' and f.token == token and deadline and tonumber(deadline) >= now then
        return leased(mine, f, all, deadline, known_sweep)
      end
    end
    if call('EXISTS', P .. 'paused') == 1 then return {'none'} end
    promote()
  end

  local heads = {}   -- shape -> {id, score} of the first job that this claim may still take
  local passed = {}  -- shape -> jobs before it, of paused and cancelled sweeps or without room, left to later calls
  local function look(shape)
    local at = passed[shape] or 0
    local first = call('ZRANGE', P .. 'waiting:' .. shape, at, at, 'WITHSCORES')
    if first[1] then
      heads[shape] = {first[1], tonumber(first[2])}
    else
      heads[shape] = nil
      if at == 0 then call('SREM', P .. 'shapes', shape) end
    end
  end
  local function pass(shape) passed[shape] = (passed[shape] or 0) + 1 end
  for _, shape in ipairs(call('SMEMBERS', P .. 'shapes')) do
    if fits(shape, cpus, gpus, lacking) then look(shape) end
  end

  local moved, without_room = 0, 0
  for _ = 1, CLAIM_LOOKS do
    local best
    for shape, head in pairs(heads) do
      if not best or head[2] < heads[best][2] then best = shape end
    end
    if not best then return {'none'} end
    local id = heads[best][1]
    local bytes = oversize(id)
    local may_end = bytes and moved < BATCH
    local what = may_end and cut_oversized(id, bytes)
    local f, all = {}, {}
    if may_end or not bytes then f, all = record(id) end
    local state, ranks = sweep_state(f.sweep or ''), free_ranks(f, hosts, gpus)
    if bytes and not may_end then
      pass(best)
    elseif f.state ~= 'waiting' then
      call('ZREM', P .. 'waiting:' .. best, id)  -- nothing of ours wrote this
    elseif bytes then
      moved = moved + 1
      call('ZREM', P .. 'waiting:' .. best, id)
      end_unreadable(id, what, f)
    elseif ranks == 0 and #hosts > 1 then
      -- Enough is free in all, and not where whole ranks could use it.
      pass(best)
      without_room = without_room + 1
    elseif state ~= 'paused' and state ~= 'cancelled' then
      return give_lease(id, f, all, best, ranks, agent, token, term, known_sweep)
    elseif moved == BATCH then
      pass(best)
    else
      -- Jobs of a paused sweep are set aside, and those of a cancelled one, to which its cancellation has not come yet,
      -- are cancelled: a bounded number, so that no claim waits for all of them, and the next ones need not pass these.
      moved = moved + 1
      if state == 'paused' then
        enter_state(id, 'held', 'hold')
      else
        cancel_now(id, 'cancel', 'its sweep was cancelled')
      end
    end
    look(best)
  end
  if without_room == CLAIM_LOOKS then return {'none'} end
  -- Jobs may wait behind those that this claim looked at: whoever listens claims again at once.
  woken = math.max(woken, 1)
  return {'again'}
end
