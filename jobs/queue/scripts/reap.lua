#!lua flags=allow-oom
-- Repairs and tidies, in batches: leases that expired, retries that are due, jobs of resumed sweeps, cancellations, times
-- that a wrong clock left, logs, and jobs that ended long ago. Anybody may run it at any time.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> how long finished jobs are kept in ms unless the queue says otherwise, 0 for ever
-- ARGV[3] -> how many finished jobs are kept unless the queue says otherwise, 0 all
-- ARGV[4] -> losses in a row, without progress, that end a job
-- ARGV[5] -> longest back-off in ms
-- ARGV[6] -> longest back-off after losses in ms
--
-- Answers {'ok', leases that were lost, orphans, jobs promoted, jobs released, jobs forgotten, 1 where there is more,
-- agents that were heard of within five minutes}.
local usual_keep_ms, usual_keep_jobs, most_losses, longest_backoff_ms, longest_loss_ms = unpack(ARGV, 2, 6)
local kept = fields(P .. 'settings', 'keep_finished_ms', 'keep_jobs')
local keep, most = num(kept[1] or usual_keep_ms), num(kept[2] or usual_keep_jobs)
local ENDS = {'succeeded', 'failed', 'cancelled', 'dead'}
local ended = 0
for _, state in ipairs(ENDS) do ended = ended + call('EXISTS', P .. 'state:' .. state) end
local trusted = trusted_now(ended > 0)  -- idle agents write nothing
local more = false
touch()

-- Returns a number in [0, 1) that depends on the job: jobs that were lost together must part, or one that takes its agent
-- down would take the others with it each time. Squares, or two jobs that are close once would be so after each loss.
local function spread(id, times)
  local sum, prime = times, 67108859
  for i = 1, #id do sum = (sum * 251 + string.byte(id, i)) % prime end
  for _ = 1, 3 do sum = (sum * sum + 12345) % prime end
  return sum / prime
end

-- What takes several agents at once, such as a loss of power, is not the doing of one job. Others that are gone, too: who
-- holds leases that were not renewed for half of their term, and who lost one lately.
local quiet = {}
local first_leases = call('ZRANGE', P .. 'leases', 0, 0, 'WITHSCORES')
if first_leases[2] and tonumber(first_leases[2]) < now then
  first_leases = call('ZRANGE', P .. 'leases', 0, BATCH - 1, 'WITHSCORES')
  for i = 1, #first_leases, 2 do
    local f = some(first_leases[i], {'lease'})
    if 2 * (tonumber(first_leases[i + 1]) - now) < num(f.term_ms) then quiet[f.agent or ''] = true end
  end
end
local losses, new_losses = {}, false  -- of the last 8 agents: {deadline of the newest lease that it lost, its name}
for _, text in ipairs(call('LRANGE', P .. 'losses', 0, -1)) do
  local at, agent = string.match(text, '^(%d+) (.*)$')
  losses[#losses + 1] = {num(at), agent or ''}
end
local function note_loss(agent, deadline, term)
  local shared = false
  for other in pairs(quiet) do shared = shared or other ~= agent end
  for _, loss in ipairs(losses) do shared = shared or loss[2] ~= agent and math.abs(loss[1] - deadline) <= term end
  if losses[1] and losses[#losses][2] == agent then losses[#losses] = nil end
  losses[#losses + 1] = {deadline, agent}
  if #losses > 8 then table.remove(losses, 1) end
  new_losses = true
  return shared
end
local function write_losses()
  if not new_losses then return end
  local texts = {}
  for i, loss in ipairs(losses) do texts[i] = int(loss[1]) .. ' ' .. loss[2] end
  call('DEL', P .. 'losses')
  call('RPUSH', P .. 'losses', unpack(texts))
end

-- Takes an expired lease from its holder. Nobody knows whether it is dead, cut off or hung; if it lives, its fence and token
-- no longer count.
local function lose(id, deadline)
  local f, new = record(id), {}
  local reason = 'lease lost by ' .. (f.agent or '')
  count('lost_leases')
  local shared = note_loss(f.agent or '', deadline, num(f.term_ms))
  if f.cancel == '1' then
    cancel_now(id, 'lost', 'cancelled by request; ' .. reason)
    return
  end
  local times, most = count_in_a_row(new, f, 'lost'), tonumber(most_losses)
  local not_its_own = (times > 1 and num(f.lost_shared) or 0) + (shared and 1 or 0)
  if not_its_own > 0 or f.lost_shared then add(new, 'lost_shared', int(not_its_own)) end
  if times - not_its_own >= most or times >= 10 * most then
    -- A job that takes its agents down with it must not do so for ever.
    reason = 'lease lost ' .. int(times) .. ' times in a row without progress, last by ' .. (f.agent or '')
    add(new, 'reason', reason)
    add(new, 'error', reason)
    count('dead')
    enter_state(id, 'dead', 'lost', new, f)
    settle(id)
  else
    if f.stop ~= '1' then add(new, 'reason', reason) end
    -- At once for the first time, because a machine died, say. Then later and later, the last time after the longest
    -- wait, so that as many losses as end a job are no single bad hour.
    if times == 1 then
      enter_state(id, 'waiting', 'lost', new, f)
    else
      local longest = tonumber(longest_loss_ms) / 2 ^ math.max(0, most - 1 - times)
      delay(id, longest * (0.5 + spread(id, times) / 2), 'lost', new, f)
    end
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
  local f = some(id, {'lease', 'graced'})
  if f.graced == '1' then return false end
  for _, silence in ipairs(silences) do
    if silence[1] <= deadline and deadline <= silence[2] and 2 * (silence[2] - silence[1]) > num(f.term_ms) then
      set(id, 'graced', '1')
      call('ZADD', P .. 'leases', int(now + num(f.term_ms)), id)
      return true
    end
  end
  return false
end

-- Puts times right that a clock left which was ahead for a while: those of leases that lie further ahead than their term,
-- of retries further than the longest back-off, of ends at all. `ahead` are members and scores to look at.
local function bring_back(index, ahead, longest, take)
  local moved = 0
  for i = 1, #ahead, 2 do
    local most = now + longest(ahead[i])
    if tonumber(ahead[i + 1]) > most then
      call('ZADD', P .. index, int(most), ahead[i])
      if take then take(ahead[i], most) end
      moved = moved + 1
    end
  end
  more = more or moved == BATCH
end
local function later_than(index, time)
  return call('ZRANGEBYSCORE', P .. index, '(' .. int(time), '+inf', 'WITHSCORES', 'LIMIT', 0, BATCH)
end
bring_back('leases', call('ZREVRANGE', P .. 'leases', 0, BATCH - 1, 'WITHSCORES'),
           function(id) return num(some(id, {'lease'}).term_ms) end)
local longest_delay = math.max(tonumber(longest_backoff_ms), tonumber(longest_loss_ms))
bring_back('delayed', later_than('delayed', now + longest_delay), function() return longest_delay end,
           function(id, due) set(id, 'due_ms', int(due)) end)
for _, state in ipairs(ENDS) do
  bring_back('state:' .. state, later_than('state:' .. state, math.max(now, trusted)), function() return math.max(0, trusted - now) end)
end
bring_back('logs', later_than('logs', now), function() return 0 end)

local lost = 0
local expired = call('ZRANGEBYSCORE', P .. 'leases', '-inf', '(' .. int(now), 'WITHSCORES', 'LIMIT', 0, BATCH)
for i = 1, #expired, 2 do
  local id = expired[i]
  if get(id, 'state') ~= 'active' then
    call('ZREM', P .. 'leases', id)
  elseif not grace(id, tonumber(expired[i + 1])) then
    lose(id, tonumber(expired[i + 1]))
    lost = lost + 1
  end
end
more = more or #expired == 2 * BATCH

-- No script of ours leaves a job active without a lease; somebody's hand on the keys may.
local orphans = 0
if call('ZCARD', P .. 'state:active') ~= call('ZCARD', P .. 'leases') then
  for _, id in ipairs(call('ZRANGE', P .. 'state:active', 0, 999)) do
    if get(id, 'state') ~= 'active' then
      call('ZREM', P .. 'state:active', id)
    elseif orphans < BATCH and not call('ZSCORE', P .. 'leases', id) then
      lose(id, now)
      orphans = orphans + 1
    end
  end
end
more = more or orphans == BATCH
write_losses()

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

local cancelling = call('ZRANGE', P .. 'cancelling', 0, 0)[1]
if cancelling then
  cancel_batch(cancelling)
  more = more or call('EXISTS', P .. 'cancelling') == 1
end

local logs = call('ZRANGEBYSCORE', P .. 'logs', '-inf', int(now - LOG_LINGERS), 'LIMIT', 0, BATCH)
for _, id in ipairs(logs) do trim_log(id) end
more = more or #logs == BATCH

-- Returns whether a job that has not ended needs this one, as an export needs its training: then it stays, and is as old
-- as one that ended now. Nil: those that needed it are too many for this call.
local looks = 1000
local function needed(id, state)
  local key = users_key(id)
  while looks > 0 do
    local users = call('SRANDMEMBER', key, BATCH)
    if not users[1] then return false end
    looks = looks - #users
    for _, user in ipairs(users) do
      local its = get(user, 'state')
      if its ~= '' and not FINAL[its] then
        call('ZADD', P .. 'state:' .. state, int(math.max(now, trusted)), id)
        return true
      end
    end
    call('SREM', key, unpack(users))
  end
  more = true
  return nil
end

-- Removes what a forgotten job had stored in Redis; what lies elsewhere is removed by agents that use that store.
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

local function forget(id, state)
  local f = some(id, {'spec', 'lease', 'sweep', 'after'})
  local sweep = f.sweep or ''
  for _, need in ipairs(list(f.after)) do call('SREM', children_key(need), id) end
  call('DEL', job_key(id), job_key(id) .. ':log', children_key(id), users_key(id))
  if call('SISMEMBER', P .. 'artifacts', id) == 1 then forget_artifacts(id) end
  call('ZREM', P .. 'state:' .. state, id)
  call('ZREM', P .. 'ids', id)
  call('ZREM', P .. 'logs', id)
  event('forget', id, state, '', f.fence or '0', f.agent or '')
  if sweep == '' then return end
  call('ZREM', sweep_key(sweep) .. ':jobs', id)
  if call('EXISTS', sweep_key(sweep) .. ':jobs') == 1 then return end
  for _, rung in ipairs(list(fields(sweep_key(sweep), 'rungs')[1], 'number')) do
    call('DEL', sweep_key(sweep) .. ':rung:' .. int(rung))
  end
  call('DEL', sweep_key(sweep), sweep_key(sweep) .. ':changes', P .. 'held:' .. sweep)
  call('ZREM', P .. 'sweeps', sweep)
  call('ZREM', P .. 'cancelling', sweep)
end

local forgotten = 0
if keep > 0 then
  for _, state in ipairs(ENDS) do
    local old = call('ZRANGEBYSCORE', P .. 'state:' .. state, '-inf', '(' .. int(math.min(now, trusted) - keep), 'LIMIT', 0, BATCH)
    for _, id in ipairs(old) do
      if call('SISMEMBER', P .. 'fallout', id) == 0 and needed(id, state) == false then
        forget(id, state)
        forgotten = forgotten + 1
      end
    end
    more = more or #old == BATCH
  end
end
-- Of too many finished jobs those that ended first.
local finished = 0
for _, state in ipairs(ENDS) do finished = finished + call('ZCARD', P .. 'state:' .. state) end
if most > 0 and finished > most then
  local first = {}
  for order, state in ipairs(ENDS) do
    local old = call('ZRANGE', P .. 'state:' .. state, 0, BATCH - 1, 'WITHSCORES')
    for i = 1, #old, 2 do first[#first + 1] = {tonumber(old[i + 1]), order, old[i], state} end
  end
  table.sort(first, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[3] < b[3]
  end)
  local before = forgotten
  for i = 1, math.min(BATCH, finished - most, #first) do
    if call('SISMEMBER', P .. 'fallout', first[i][3]) == 0 and needed(first[i][3], first[i][4]) == false then
      forget(first[i][3], first[i][4])
      forgotten = forgotten + 1
    end
  end
  more = more or finished - most > BATCH and forgotten > before
end
return announce({'ok', int(lost), int(orphans), int(promoted), int(released), int(forgotten), more and '1' or '0',
                 int(call('ZCOUNT', P .. 'agents', int(now - 300000), '+inf'))})
