-- Module: what is kept of a job that has ended, and how long.
local FINAL = {succeeded = true, failed = true, cancelled = true, dead = true}
local function ended_badly(state) return FINAL[state] and state ~= 'succeeded' end

-- How far the clock is trusted where something is forgotten for its age: it follows the clock, forward and back, while
-- agents call, in steps of at most a minute, and a day for each hour of these. So a clock that is 40 days ahead or
-- behind for some minutes forgets nothing, and a queue that nobody used for a month forgets what it must within a day.
local CLOCK_STEP, CLOCK_RATE = 60000, 24
local function trusted_now(write)
  local seen, before, trusted = num(queue[3]), num(queue[4]), now
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

-- Whoever follows a job sees the end of its log for this long after it; no more than so many jobs keep theirs.
local LOG_LINGERS, LINGERING_LOGS = 60000, 1000
-- Cuts the log of a job that ended a while ago to its last lines: its agent kept all of it in output.log.
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

-- Writes the record of a job that has ended: what people and leaderboards ask for, and what a retry needs. `new` are the
-- fields that change, as a list, `old` all fields before that, from which those of `new` are removed.
local function settle_down(id, state, new, old)
  local succeeded, history, token, log_lines = state == 'succeeded', old.history or '', old.token or '', old.log_lines
  local dropped = {graced = true, cancel = true, due_ms = true, iteration = true, eta_s = succeeded, loss = succeeded,
                   stop = succeeded, error = succeeded, exit_code = succeeded, updated_ms = succeeded,
                   failed_on = succeeded}
  -- The value that a missing field means.
  local usual = {}
  if succeeded then
    usual.total_steps, usual.best_objective = old.step, old.objective
    if token ~= '' then usual.finished_by = old.fence .. ':' .. token end
  elseif token ~= '' and old.claimed_ms then
    add(new, 'lease', lease_text(old.fence, '-', old.attempt, old.claimed_ms, old.term_ms, old.agent))
  end
  local kept, gone, k, g = {}, {}, 0, 0
  for i = 1, #new, 2 do
    local name, value = new[i], new[i + 1]
    if succeeded and name == 'objective' then usual.best_objective = value end  -- which comes after it
    if value ~= '' and not dropped[name] and value ~= usual[name] then
      kept[k + 1], kept[k + 2], k = name, value, k + 2
    elseif old[name] then
      g = g + 1
      gone[g] = name
    end
    old[name] = nil
  end
  for name, value in pairs(old) do
    if value == '' or dropped[name] or value == usual[name] then
      g = g + 1
      gone[g] = name
    end
  end
  if token ~= '' then call('DEL', P .. 'token:' .. token) end
  -- A long history has made the hash large, and only a new one is compact again, whose long fields come last: Redis makes
  -- a hash with room for the fields that it has when the first long one comes.
  if g > 0 and history ~= '' then
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
  elseif g > 0 then
    call('HDEL', job_key(id), unpack(gone, 1, g))
  end
  set(id, unpack(kept, 1, k))
  if num(log_lines) > 0 then
    call('ZADD', P .. 'logs', int(now), id)
    if call('ZCARD', P .. 'logs') > LINGERING_LOGS then trim_log(call('ZRANGE', P .. 'logs', 0, 0)[1]) end
  end
end

-- Removes the parts of an artifact in Redis (jobs/queue/artifact.h), whose keys `text` names.
local function drop_parts(text)
  for part in string.gmatch(text or '', '%S+') do call('DEL', P .. part) end
end
