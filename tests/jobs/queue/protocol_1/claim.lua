-- ARGV: events, agent, token, free CPUs, free GPUs, term in ms.
local agent, token, cpus, gpus, term = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
touch()

local function lease(id)
  return {'lease', id, call('ZSCORE', P .. 'leases', id), call('HGETALL', job_key(id))}
end

-- The answer to this very claim was lost: the same lease again, rather than a second job for the same slots.
local mine = call('GET', P .. 'token:' .. token)
if mine then
  local f = call('HMGET', job_key(mine), 'state', 'token')
  local deadline = call('ZSCORE', P .. 'leases', mine)
  if f[1] == 'active' and f[2] == token and deadline and tonumber(deadline) >= now then return lease(mine) end
end
if call('EXISTS', P .. 'paused') == 1 then return {'none'} end
promote()

local heads = {}  -- shape -> {id, score} of its first job
local function look(shape)
  local first = call('ZRANGE', P .. 'waiting:' .. shape, 0, 0, 'WITHSCORES')
  if first[1] then
    heads[shape] = {first[1], tonumber(first[2])}
  else
    heads[shape] = nil
    call('SREM', P .. 'shapes', shape)
  end
end
for _, shape in ipairs(call('SMEMBERS', P .. 'shapes')) do
  local c, g = string.match(shape, '^c(%d+)g(%d+)$')
  if c and tonumber(c) <= cpus and tonumber(g) <= gpus then look(shape) end
end

for _ = 1, BATCH do
  local best
  for shape, head in pairs(heads) do
    if not best or head[2] < heads[best][2] then best = shape end
  end
  if not best then return {'none'} end
  local id = heads[best][1]
  local f = call('HMGET', job_key(id), 'sweep', 'fence', 'failures', 'stop', 'state')
  local state = sweep_state(f[1] or '')
  if f[5] ~= 'waiting' then
    call('ZREM', P .. 'waiting:' .. best, id)  -- nothing of ours wrote this
  elseif state == 'paused' then
    -- Set aside, or every claim would walk over all jobs of paused sweeps.
    enter_state(id, 'held', 'hold')
  elseif state == 'cancelled' then
    -- cancel_sweep goes job by job, and has not come to this one yet.
    cancel_now(id, 'cancel', 'its sweep was cancelled')
    return {'again'}
  else
    set(id, 'fence', int(num(f[2]) + 1), 'token', token, 'agent', agent, 'attempt', int(num(f[3]) + 1),
        'claimed_ms', int(now), 'term_ms', int(term), 'graced', '')
    if f[4] ~= '1' then set(id, 'reason', '') end
    enter_state(id, 'active', 'claim')
    call('ZADD', P .. 'leases', int(now + term), id)
    call('SET', P .. 'token:' .. token, id, 'PX', int(lifetime_ms(term)))
    count('claimed')
    return lease(id)
  end
  look(best)
end
return {'again'}
