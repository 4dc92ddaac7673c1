-- ARGV: events, how long finished jobs are kept in ms (0: for ever).
local keep = tonumber(ARGV[2])
local more = false
touch()

-- Nobody knows whether the holder is dead, cut off or hung; if it lives, its fence and token no longer count.
local function lose(id)
  local f = call('HMGET', job_key(id), 'agent', 'cancel', 'failures', 'max_attempts', 'stop')
  local reason = 'lease lost by ' .. (f[1] or '')
  count('lost_leases')
  if f[2] == '1' then
    cancel_now(id, 'lost', 'cancelled by request; ' .. reason)
    return
  end
  local failures = num(f[3]) + 1
  set(id, 'failures', int(failures))
  if failures >= num(f[4]) then
    -- A job that takes its agents down with it must not do so for ever.
    set(id, 'reason', reason, 'error', reason)
    count('dead')
    enter_state(id, 'dead', 'lost')
    settle(id)
  else
    if f[5] ~= '1' then set(id, 'reason', reason) end
    enter_state(id, 'waiting', 'lost')
  end
end

local silences = {}
for _, text in ipairs(call('LRANGE', P .. 'silences', 0, -1)) do
  local from, to = string.match(text, '^(%d+) (%d+)$')
  silences[#silences + 1] = {tonumber(from), tonumber(to)}
end

-- A lease that ran out while no agent reached Redis at all, for longer than half of its term, gets another term: Redis
-- was away, not the holder. Once only until the holder renews it, so that a dead holder is found all the same.
local function grace(id, deadline)
  local f = call('HMGET', job_key(id), 'term_ms', 'graced')
  if f[2] == '1' then return false end
  for _, silence in ipairs(silences) do
    if silence[1] <= deadline and deadline <= silence[2] and 2 * (silence[2] - silence[1]) > num(f[1]) then
      set(id, 'graced', '1')
      call('ZADD', P .. 'leases', int(now + num(f[1])), id)
      return true
    end
  end
  return false
end

local lost = 0
local expired = call('ZRANGEBYSCORE', P .. 'leases', '-inf', '(' .. int(now), 'WITHSCORES', 'LIMIT', 0, BATCH)
for i = 1, #expired, 2 do
  local id = expired[i]
  if get(id, 'state') ~= 'active' then
    call('ZREM', P .. 'leases', id)
  elseif not grace(id, tonumber(expired[i + 1])) then
    lose(id)
    lost = lost + 1
  end
end
more = more or #expired == 2 * BATCH

-- No script of ours leaves a job active without a lease; somebody's hand on the keys may.
local orphans = 0
if call('ZCARD', P .. 'state:active') ~= call('ZCARD', P .. 'leases') then
  for _, id in ipairs(call('ZRANGE', P .. 'state:active', 0, 999)) do
    if orphans < BATCH and not call('ZSCORE', P .. 'leases', id) then
      lose(id)
      orphans = orphans + 1
    end
  end
end
more = more or orphans == BATCH

local promoted = promote()
more = more or promoted == BATCH

local released = 0
for _, sweep in ipairs(call('SMEMBERS', P .. 'held')) do
  if released < BATCH and sweep_state(sweep) ~= 'paused' then released = released + release_held(sweep) end
end
more = more or released >= BATCH

for _, id in ipairs(call('SRANDMEMBER', P .. 'fallout', 4)) do
  call('SREM', P .. 'fallout', id)
  settle(id)
end
more = more or call('EXISTS', P .. 'fallout') == 1

local function forget(id, state)
  local f = call('HMGET', job_key(id), 'sweep', 'after', 'fence', 'agent')
  local sweep = f[1] or ''
  for _, need in ipairs(cjson.decode(f[2] or '[]')) do call('SREM', children_key(need), id) end
  call('DEL', job_key(id), job_key(id) .. ':log', children_key(id))
  call('ZREM', P .. 'state:' .. state, id)
  call('ZREM', P .. 'ids', id)
  event('forget', id, state, '', f[3] or '0', f[4] or '')
  if sweep == '' then return end
  call('ZREM', sweep_key(sweep) .. ':jobs', id)
  if call('EXISTS', sweep_key(sweep) .. ':jobs') == 1 then return end
  for _, rung in ipairs(cjson.decode(call('HGET', sweep_key(sweep), 'rungs') or '[]')) do
    call('DEL', sweep_key(sweep) .. ':rung:' .. int(rung))
  end
  call('DEL', sweep_key(sweep), P .. 'held:' .. sweep)
  call('ZREM', P .. 'sweeps', sweep)
end

local forgotten = 0
if keep > 0 then
  for _, state in ipairs({'succeeded', 'failed', 'cancelled', 'dead'}) do
    local old = call('ZRANGEBYSCORE', P .. 'state:' .. state, '-inf', '(' .. int(now - keep), 'LIMIT', 0, BATCH)
    for _, id in ipairs(old) do
      if call('SISMEMBER', P .. 'fallout', id) == 0 then
        forget(id, state)
        forgotten = forgotten + 1
      end
    end
    more = more or #old == BATCH
  end
end
return {'ok', int(lost), int(orphans), int(promoted), int(released), int(forgotten), more and '1' or '0'}
