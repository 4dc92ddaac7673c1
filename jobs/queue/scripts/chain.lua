-- Stands in front of finish_claim.lua: a slot between two jobs where all is as it mostly is, without the functions of
-- common.lua, which Redis makes anew at each call, and without the tables that other cases need. It does what finish.lua and
-- claim.lua would do. Nil, and nothing is written: something is out of the ordinary, and they do it. That is any outcome but
-- success, a history that stays, retries, pauses, jobs that wait for this one, Bayesian and elastic trials, settings that the
-- agent does not know, several hosts, and a queue without further jobs.
local function chain()
  local P, call, format = KEYS[1], redis.call, string.format
  local id, fence, token, objective = ARGV[3], ARGV[4], ARGV[5], ARGV[9]
  local agent, next_token, cpus, term, known = ARGV[20], ARGV[21], tonumber(ARGV[22]), tonumber(ARGV[24]), ARGV[25]
  if ARGV[2] ~= '17' or ARGV[7] ~= 'succeeded' or ARGV[19] ~= '' or not cpus then return nil end
  local now, queue = clock_ms(), call('HMGET', P .. 'settings', 'protocol', 'alive_ms', 'clock_trusted')
  local silent, ahead = now - (tonumber(queue[2] or 0) or 0), (tonumber(queue[3] or 0) or 0) - now
  if queue[1] or silent < 0 or silent > 250 or ahead > 0 then return nil end
  local key, leases, now_text = P .. 'job:' .. id, P .. 'leases', format('%d', now)
  -- Without a trusted clock of ours, the one of earlier programs rules.
  local other = queue[3] and 'paused' or 'clock'
  if call('EXISTS', key .. ':children', P .. 'token:' .. next_token, P .. 'paused', P .. 'delayed', P .. other) > 0 then return nil end

  -- The job that ends: its fields, and the names of those that go, which only leases need, or which are empty.
  local all, m = redis.pcall('HGETALL', key), 0
  local gone = {'', '', '', '', '', '', '', '', '', '', '', ''}
  -- Room for the usual fields: a table that grows is made anew each time that it has doubled.
  local f = {kind = nil, sweep = nil, trial = nil, settings = nil, parameters = nil, metric = nil, goal = nil, ranks = nil,
             cpus = nil, max_attempts = nil, format = nil, sequence = nil, submitted_ms = nil, state = nil, updated_ms = nil,
             fence = nil, token = nil, agent = nil, attempt = nil, claimed_ms = nil, term_ms = nil, name = nil, step = nil}
  for i = 1, all.err and 0 or #all, 2 do
    local value = all[i + 1]
    f[all[i]] = value
    if value == '' then m = m + 1 gone[m] = all[i] end
  end
  local newest = f.fence == fence and f.token == token
  if not newest or f.state ~= 'active' or (f.history or '') ~= '' or f.results then return nil end
  local logged = f.log_lines and f.log_lines ~= '0'
  if logged and (call('ZCARD', P .. 'logs') >= 1000 or not tonumber(f.log_lines)) then return nil end  -- one would be cut
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
    local c, g, version = string.match(shapes[i], '^c(%d+)g(%d+)v?(%d*)$')
    if not c or #c > 9 or #g > 9 then return nil end  -- as no job can need
    if tonumber(c) <= cpus and (g == '0' or tonumber(g) <= tonumber(ARGV[23])) and tonumber(version ~= '' and version or 1) <= FORMAT then
      local first = call('ZRANGE', P .. 'waiting:' .. shapes[i], 0, 0, 'WITHSCORES')
      if not first[1] then return nil end
      local its = #shapes == 1 and 0 or tonumber(first[2])
      if not score or its < score then shape, next_id, score = shapes[i], first[1], its end
    end
  end
  if not shape then return nil end
  local next_key = P .. 'job:' .. next_id
  local record = redis.pcall('HGETALL', next_key)
  local n = record.err and 0 or #record
  local g = {kind = nil, sweep = nil, trial = nil, settings = nil, parameters = nil, metric = nil, goal = nil, ranks = nil,
             cpus = nil, max_attempts = nil, format = nil, sequence = nil, submitted_ms = nil, state = nil, updated_ms = nil}
  for i = 1, n, 2 do g[record[i]] = record[i + 1] end
  local before, failures = tonumber(g.fence or 0) or -1, tonumber(g.failures or 0) or -1
  local sound = before >= 0 and before < 2 ^ 53 and failures >= 0 and failures < 2 ^ 53
  if not sound or g.state ~= 'waiting' or (g.sweep or '') ~= sweep or (g.most_ranks or '') ~= '' or (g.graced or '') ~= '' or
     (g.reason or '') ~= '' or (g.settings == '@sweep' and known ~= sweep .. ' ' .. created) then
    return nil
  end

  -- Nothing was written up to here. First what goes, as in settle_down.
  for _, name in ipairs({'token', 'term_ms', 'sequence', 'updated_ms', 'reason', 'cancel', 'stop', 'error', 'exit_code', 'failed_on',
                         'iteration', 'eta_s', 'loss', 'graced', 'due_ms'}) do
    if f[name] then m = m + 1 gone[m] = name end
  end
  local best, value = f.best_objective, tonumber(objective)
  local best_before = tonumber(best or '')
  if not value then
    objective = f.objective
  elseif not best_before or (f.goal == 'maximize' and value > best_before) or (f.goal ~= 'maximize' and value < best_before) then
    best = objective
  end
  if f.best_objective and best == objective then m = m + 1 gone[m] = 'best_objective' end
  if f.checkpoint and ARGV[10] == '-' then m = m + 1 gone[m] = 'checkpoint' end
  if f.ranks == '1' then m = m + 1 gone[m] = 'ranks' end
  if f.cpus == '1' then m = m + 1 gone[m] = 'cpus' end
  if f.max_attempts == '3' then m = m + 1 gone[m] = 'max_attempts' end
  if f.attempt == '1' then m = m + 1 gone[m] = 'attempt' end
  if f.total_steps and f.total_steps == f.step then m = m + 1 gone[m] = 'total_steps' end
  if type(redis.pcall('HDEL', key, unpack(gone, 1, m))) == 'table' then return nil end  -- a user without the right
  local kept = {'finished_by', fence .. ':' .. token, 'results', '1', 'state', 'succeeded', 'finished_ms', now_text}
  local k = 8
  if ARGV[13] ~= '' then kept[9], kept[10], k = 'seconds', ARGV[13], 10 end
  if value then kept[k + 1], kept[k + 2], k = 'objective', objective, k + 2 end
  if best and best ~= objective and best ~= f.best_objective then kept[k + 1], kept[k + 2], k = 'best_objective', best, k + 2 end
  if ARGV[10] ~= '' and ARGV[10] ~= '-' then kept[k + 1], kept[k + 2], k = 'checkpoint', ARGV[10], k + 2 end
  if ARGV[8] ~= '' then kept[k + 1], kept[k + 2], k = 'metrics', ARGV[8], k + 2 end
  call('HSET', key, unpack(kept, 1, k))
  call('ZREM', P .. 'state:active', id)
  call('ZADD', P .. 'state:succeeded', now_text, id)
  call('ZREM', leases, id)
  call('DEL', P .. 'token:' .. token)
  if logged then call('ZADD', P .. 'logs', now_text, id) end
  call('XADD', P .. 'events', '*', 'event', 'finish', 'job', id, 'from', 'active', 'to', 'succeeded', 'fence', fence, 'agent',
       f.agent or '')

  -- The claim.
  local raised, attempt, deadline = format('%d', before + 1), format('%d', failures + 1), format('%d', now + term)
  call('ZREM', P .. 'waiting:' .. shape, next_id)
  call('ZREM', P .. 'state:waiting', next_id)
  call('ZADD', P .. 'state:active', now_text, next_id)
  call('ZADD', leases, deadline, next_id)
  call('HSET', next_key, 'state', 'active', 'updated_ms', now_text, 'fence', raised, 'token', next_token, 'agent', agent,
       'attempt', attempt, 'claimed_ms', now_text, 'term_ms', ARGV[24])
  call('SET', P .. 'token:' .. next_token, next_id, 'PX', format('%d', lifetime_ms(term)))
  call('XADD', P .. 'events', 'MAXLEN', '~', ARGV[1], '*', 'event', 'claim', 'job', next_id, 'from', 'waiting', 'to', 'active',
       'fence', raised, 'agent', agent)
  call('HINCRBY', P .. 'totals', 'chained', 1)
  record[n + 1], record[n + 2], record[n + 3], record[n + 4] = 'fence', raised, 'agent', agent
  record[n + 5], record[n + 6] = 'attempt', attempt
  return {'ok', 'lease', next_id, deadline, cmsgpack.pack(record), g.settings == '@sweep' and '@sweep' or '', created}
end
local chained = chain()
if chained then return chained end
