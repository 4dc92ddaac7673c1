#!lua flags=allow-oom
-- ARGV: events, agent, token, free CPUs (of each host of the agent, with commas between), free GPUs, term in ms, then the
-- sweep whose settings the caller knows, as its id and when it was created with a space between, or nothing, then `any` and
-- the keys of the programs that the agent lacks, each after a space, or nothing where it runs no programs of jobs.
local agent, token, gpus, term = ARGV[2], ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6])
local hosts, cpus = {}, 0
for free in string.gmatch(ARGV[4], '%d+') do
  hosts[#hosts + 1] = tonumber(free)
  cpus = cpus + tonumber(free)
end
local known, runs_programs, lacking = ARGV[7], ARGV[8] ~= '', {}
for program in string.gmatch(ARGV[8], ' (%x+)') do lacking[program] = true end
local LOOK = 1000  -- waiting jobs that one claim looks at
local LARGEST = 2 ^ 32  -- CPUs or GPUs of a job in all: 65,536 ranks with as many each
-- A claim that finds nothing writes nothing: idle agents ask often, and each write would be an fsync.

-- Where a job has its sweep's settings, also these and when the sweep was created; @sweep in place of those that are known.
local function lease(id, f, all, deadline)
  if f.settings ~= '@sweep' then return {'lease', id, deadline, cmsgpack.pack(all), '', ''} end
  local sweep = f.sweep or ''
  local created = sweep_of(sweep).created
  local settings = known == sweep .. ' ' .. created and '@sweep' or fields(sweep_key(sweep), 'settings')[1] or ''
  return {'lease', id, deadline, cmsgpack.pack(all), settings, created}
end

-- How many ranks a job gets: one that says how many at most takes what is free. 0: not as many as it needs.
local function free_ranks(f)
  local least, each, gpus_each = num(f.ranks or 1), num(f.cpus or 1), num(f.gpus)
  if least < 1 or each < 1 then return 1 end  -- damaged, which the claim that takes it finds
  local most, free = math.max(least, num(f.most_ranks)), 0
  for _, host in ipairs(hosts) do free = free + math.floor(host / each) end
  if gpus_each > 0 then free = math.min(free, math.floor(gpus / gpus_each)) end
  if free < least then return 0 end
  return math.min(most, free)
end

-- As a rule there is none of this, and one command says so.
if not bare and call('EXISTS', P .. 'token:' .. token, P .. 'paused', P .. 'delayed') > 0 then
  -- The answer to this very claim was lost: the same lease again, rather than a second job for the same slots.
  local mine = call('GET', P .. 'token:' .. token)
  if mine then
    local f, all = record(mine)
    local deadline = call('ZSCORE', P .. 'leases', mine)
    if f.state == 'active' and f.token == token and deadline and tonumber(deadline) >= now then
      return lease(mine, f, all, deadline)
    end
  end
  if call('EXISTS', P .. 'paused') == 1 then return {'none'} end
  promote()
end

local heads = {}   -- shape -> {id, score} of the first job that this claim may still take
local passed = {}  -- shape -> jobs before it, of paused and cancelled sweeps or without room, that are left to later calls
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
for _, shape in ipairs(call('SMEMBERS', P .. 'shapes')) do
  local c, g = string.match(shape, '^c(%d+)g(%d+)')
  local version = tonumber(string.match(shape, 'v(%d+)$') or 1)
  local program = string.match(shape, '^c%d+g%d+p(%x+)')
  local runs = not program or runs_programs and not lacking[program]
  -- Demands that no job can have are of damaged records, which the claim that takes them ends.
  local damaged = not c or tonumber(c) > LARGEST or tonumber(g) > LARGEST
  if version <= FORMAT and runs and (damaged or (tonumber(c) <= cpus and tonumber(g) <= gpus)) then look(shape) end
end

local moved, without_room = 0, 0
for _ = 1, LOOK do
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
  local state, ranks = sweep_state(f.sweep or ''), free_ranks(f)
  if bytes and not may_end then
    passed[best] = (passed[best] or 0) + 1
  elseif f.state ~= 'waiting' then
    call('ZREM', P .. 'waiting:' .. best, id)  -- nothing of ours wrote this
  elseif bytes then
    moved = moved + 1
    call('ZREM', P .. 'waiting:' .. best, id)
    end_unreadable(id, what, f)
  elseif ranks == 0 and #hosts > 1 then
    -- Enough is free in all, and not where whole ranks could use it.
    passed[best] = (passed[best] or 0) + 1
    without_room = without_room + 1
  elseif state ~= 'paused' and state ~= 'cancelled' then
    touch(true)
    local fence = int(num(f.fence) + 1)
    local new = {'lease', table.concat({fence, token, int(num(f.failures) + 1), now_text, int(term), agent}, ' ')}
    local function clear(name)
      if (rawget(f, name) or '') == '' then return end
      new[#new + 1] = name
      new[#new + 1] = ''
    end
    for _, name in ipairs(LEASED) do clear(name) end
    clear('graced')
    if f.stop ~= '1' then clear('reason') end
    f.fence, f.agent = fence, agent
    if (f.most_ranks or '') ~= '' then
      new[#new + 1] = 'attempt_ranks'
      new[#new + 1] = int(math.max(ranks, num(f.ranks or 1)))
    end
    enter_state(id, 'active', 'claim', new, f, best)
    local deadline = int(now + term)
    call('ZADD', P .. 'leases', deadline, id)
    call('SET', P .. 'token:' .. token, id, 'PX', int(lifetime_ms(term)))
    count('claimed')
    if woken > 0 then woken = woken - 1 end  -- this one is taken
    local n = #all
    for i = 1, #new do all[n + i] = new[i] end  -- of a field that comes twice, the last one holds
    return lease(id, f, all, deadline)
  elseif moved == BATCH then
    passed[best] = (passed[best] or 0) + 1
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
if without_room == LOOK then return {'none'} end
-- Jobs may wait behind those that this claim looked at: whoever listens claims again at once.
woken = math.max(woken, 1)
return {'again'}
