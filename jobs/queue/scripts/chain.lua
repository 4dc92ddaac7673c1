-- Stands in front of finish_claim.lua: a slot between two jobs where all is as it mostly is, without the functions of
-- common.lua, which Redis makes anew at each call, and without the tables that other cases need. It does what finish.lua and
-- claim.lua would do. Nil, and nothing is written: something is out of the ordinary, and they do it. That is any outcome but
-- success, a history that stays, retries, pauses, jobs that wait for this one, Bayesian and elastic trials, settings that the
-- agent does not know, records of earlier programs, several hosts, and a queue without further jobs.
local function chain()
  local P, call, format = KEYS[1], redis.call, string.format
  local id, fence, token, objective = ARGV[3], ARGV[4], ARGV[5], ARGV[9]
  local agent, next_token, cpus, term, known, programs = ARGV[20], ARGV[21], tonumber(ARGV[22]), tonumber(ARGV[24]), ARGV[25], ARGV[26]
  if ARGV[2] ~= '17' or ARGV[7] ~= 'succeeded' or ARGV[19] ~= '' or not cpus then return nil end
  local now, queue = clock_ms(), call('HMGET', P .. 'settings', 'protocol', 'alive_ms', 'clock_trusted', 'clock_seen')
  local silent, ahead = now - (tonumber(queue[2] or 0) or 0), (tonumber(queue[3] or 0) or 0) - now
  if queue[1] ~= '3' or silent < 0 or silent > 250 or ahead > 0 then return nil end
  local key, leases, now_text = P .. 'job:' .. id, P .. 'leases', format('%d', now)
  -- Without a trusted clock of ours, the one of earlier programs rules.
  local other = queue[3] and 'paused' or 'clock'
  if queue[3] and math.abs(now - (tonumber(queue[4] or 0) or 0)) >= 30000 then return nil end  -- it is to be written
  if call('EXISTS', key .. ':children', P .. 'token:' .. next_token, P .. 'paused', P .. 'delayed', P .. other) > 0 then return nil end

  -- The job that ends, which this lease holds, and whose fields all stand in its spec, its lease and what it reported.
  local all, f = redis.pcall('HGETALL', key), {state = nil, lease = nil, spec = nil, sweep = nil, format = nil, sequence = nil, step = nil}
  for i = 1, all.err and 0 or #all, 2 do f[all[i]] = all[i + 1] end
  local mine, held = fence .. ' ' .. token .. ' ', f.lease
  if f.state ~= 'active' or not held or not f.spec or string.sub(held, 1, #mine) ~= mine or string.sub(held, -1 - #agent) ~= ' ' .. agent or
     f.fence or f.token or f.agent or f.attempt or f.claimed_ms or f.ranks or f.cpus or f.max_attempts or (f.history or '') ~= '' or
     f.results then
    return nil
  end
  local logged = f.log_lines and f.log_lines ~= '0'
  if logged and (call('ZCARD', P .. 'logs') >= 1000 or not tonumber(f.log_lines)) then return nil end  -- one would be cut
  local best, value = f.best_objective, tonumber(objective)
  if best and best ~= '' and value then
    local sound, spec = pcall(cjson.decode, f.spec)
    local best_before, goal = tonumber(best), f.goal or sound and type(spec) == 'table' and spec.goal
    if not best_before or (goal == 'maximize' and value > best_before) or (goal ~= 'maximize' and value < best_before) then
      best = objective
    end
  elseif value then
    best = objective
  else
    objective = f.objective
  end
  local sweep, created = f.sweep or '', ''
  if sweep ~= '' then
    local its = redis.pcall('HMGET', P .. 'sweep:' .. sweep, 'state', 'method', 'created_ms')
    if its[1] ~= 'running' or its[2] == 'bayes' or not its[3] then return nil end
    created = its[3]
  end

  -- The job that is next, of the first ones of each demand that fits.
  local shape, next_id, score
  local shapes = call('SMEMBERS', P .. 'shapes')
  for i = 1, #shapes do
    local c, g, p, version = string.match(shapes[i], '^c(%d+)g(%d+)p?(%x*)v?(%d*)$')
    if not c or #c > 9 or #g > 9 then return nil end  -- as no job can need
    local runs = p == '' or programs ~= '' and not string.find(programs .. ' ', ' ' .. p .. ' ', 1, true)
    if runs and tonumber(c) <= cpus and (g == '0' or tonumber(g) <= tonumber(ARGV[23])) and tonumber(version ~= '' and version or 1) <= FORMAT then
      local first = call('ZRANGE', P .. 'waiting:' .. shapes[i], 0, 0, 'WITHSCORES')
      if not first[1] then return nil end
      local its = #shapes == 1 and 0 or tonumber(first[2])
      if not score or its < score then shape, next_id, score = shapes[i], first[1], its end
    end
  end
  if not shape then return nil end
  local next_key = P .. 'job:' .. next_id
  local bytes = redis.pcall('MEMORY', 'USAGE', next_key, 'SAMPLES', '0')
  if type(bytes) == 'number' and bytes > LARGEST_RECORD then return nil end
  local record = redis.pcall('HGETALL', next_key)
  local n = record.err and 0 or #record
  local g = {state = nil, lease = nil, spec = nil, sweep = nil, format = nil, sequence = nil, submitted_ms = nil, step = nil}
  for i = 1, n, 2 do g[record[i]] = record[i + 1] end
  local spec, before, failures = g.spec, 0, tonumber(g.failures or 0) or -1
  if g.lease then before = tonumber(string.match(g.lease, '^(%d+) ') or -1) end
  local sound = before >= 0 and before < 2 ^ 53 and failures >= 0 and failures < 2 ^ 53
  if not sound or not spec or g.state ~= 'waiting' or (g.sweep or '') ~= sweep or g.fence or g.token or g.agent or g.attempt or
     g.claimed_ms or g.term_ms or g.most_ranks or string.find(spec, '"most_ranks":', 1, true) or (g.graced or '') ~= '' or
     (g.reason or '') ~= '' then
    return nil
  end
  local shared = g.settings == '@sweep' or not g.settings and string.find(spec, '"settings":"@sweep"', 1, true)
  if shared and known ~= sweep .. ' ' .. created then return nil end

  -- Nothing was written up to here. First what goes, as in settle_down.
  local gone, m = {'', '', '', '', '', '', '', ''}, 0
  if f.updated_ms or f.term_ms then
    for i = 1, #all, 2 do
      if all[i + 1] == '' then m = m + 1 gone[m] = all[i] end
    end
    for _, name in ipairs({'term_ms', 'updated_ms', 'reason', 'cancel', 'stop', 'error', 'exit_code', 'failed_on', 'iteration', 'eta_s',
                           'loss', 'graced', 'due_ms', 'finished_by'}) do
      if f[name] and f[name] ~= '' then m = m + 1 gone[m] = name end
    end
    if f.best_objective and best == objective then m = m + 1 gone[m] = 'best_objective' end
    if f.checkpoint and ARGV[10] == '-' then m = m + 1 gone[m] = 'checkpoint' end
    if f.total_steps and f.total_steps == f.step then m = m + 1 gone[m] = 'total_steps' end
    if m > 0 and type(redis.pcall('HDEL', key, unpack(gone, 1, m))) == 'table' then return nil end  -- a user without the right
  end
  local kept, k = {'results', '1', 'state', 'succeeded', 'finished_ms', now_text, '', '', '', '', '', ''}, 6
  if ARGV[13] ~= '' then kept[7], kept[8], k = 'seconds', ARGV[13], 8 end
  if value then kept[k + 1], kept[k + 2], k = 'objective', objective, k + 2 end
  if best and best ~= objective and best ~= f.best_objective then kept[k + 1], kept[k + 2], k = 'best_objective', best, k + 2 end
  if ARGV[10] ~= '' and ARGV[10] ~= '-' then kept[k + 1], kept[k + 2], k = 'checkpoint', ARGV[10], k + 2 end
  if ARGV[8] ~= '' then kept[k + 1], kept[k + 2], k = 'metrics', ARGV[8], k + 2 end
  call('HSET', key, unpack(kept, 1, k))
  if not queue[3] then call('HSET', P .. 'settings', 'clock_seen', now_text, 'clock_trusted', now_text) end
  call('ZREM', P .. 'state:active', id)
  call('ZADD', P .. 'state:succeeded', now_text, id)
  call('ZREM', leases, id)
  call('DEL', P .. 'token:' .. token)
  if logged then call('ZADD', P .. 'logs', now_text, id) end

  -- The claim.
  local raised, attempt, deadline = format('%d', before + 1), format('%d', failures + 1), format('%d', now + term)
  call('ZREM', P .. 'waiting:' .. shape, next_id)
  call('ZREM', P .. 'state:waiting', next_id)
  call('ZADD', P .. 'state:active', now_text, next_id)
  call('ZADD', leases, deadline, next_id)
  local lease = table.concat({raised, next_token, attempt, now_text, ARGV[24], agent}, ' ')
  if g.updated_ms then
    call('HSET', next_key, 'state', 'active', 'lease', lease, 'updated_ms', now_text)
  else
    call('HSET', next_key, 'state', 'active', 'lease', lease)
  end
  call('SET', P .. 'token:' .. next_token, next_id, 'PX', format('%d', lifetime_ms(term)))
  call('XADD', P .. 'events', 'MAXLEN', '~', ARGV[1], '*', 'event', 'finish', 'job', id, 'from', 'active', 'to', 'succeeded',
       'fence', fence, 'agent', agent, 'next', next_id, 'raised', raised)
  call('HINCRBY', P .. 'totals', 'chained', 1)
  record[n + 1], record[n + 2] = 'lease', lease
  return {'ok', 'lease', next_id, deadline, cmsgpack.pack(record), shared and '@sweep' or '', created}
end
local chained = chain()
if chained then return chained end
