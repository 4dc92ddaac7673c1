-- Fast path of finish.lua: a slot between two jobs where all is as it mostly is. It does what finish.lua would do, but
-- comes before the modules, whose functions Redis creates again at each call, and needs none of the tables of other
-- cases. docs/explanations/job-queue.md, "Speed", says what it saves; tests/jobs/queue/fast_path_test.cpp compares what both
-- leave. KEYS and ARGV are those of finish.lua.
--
-- It writes nothing, and leaves the call to finish.lua, where anything is out of the ordinary: any outcome but success, a
-- history that stays, retries, pauses, jobs that need this one, Bayesian and elastic trials, settings that the agent does
-- not know, several hosts, and a queue without further jobs.
local function finish_and_claim()
  local id, fence, token, agent, outcome, metrics, objective, checkpoint = unpack(ARGV, 2, 9)
  local seconds, history = ARGV[12], ARGV[18]
  local claimant, next_token, free_cpus, free_gpus, term_ms, known_sweep, programs = unpack(ARGV, 19, 25)
  local P, event_limit, cpus = KEYS[1], ARGV[1], tonumber(free_cpus)
  if outcome ~= 'succeeded' or history ~= '' or claimant ~= agent or not cpus then return nil end

  local call, format, now = redis.call, string.format, clock_ms()
  local queue = call('HMGET', P .. 'settings', 'protocol', 'alive_ms', 'clock_trusted', 'clock_seen')
  local silent = now - (tonumber(queue[2] or 0) or 0)
  local trusted, seen = tonumber(queue[3] or ''), tonumber(queue[4] or '')
  if queue[1] ~= PROTOCOL or silent < 0 or silent > 250 then return nil end
  if not trusted or not seen or trusted > now or math.abs(now - seen) >= 30000 then return nil end  -- they are to be written
  local key, leases, now_text = P .. 'job:' .. id, P .. 'leases', format('%d', now)
  if call('EXISTS', key .. ':children', P .. 'token:' .. next_token, P .. 'paused', P .. 'delayed') > 0 then return nil end

  -- The job that ends, which this lease holds.
  local all, f = redis.pcall('HGETALL', key), {}
  for i = 1, all.err and 0 or #all, 2 do f[all[i]] = all[i + 1] end
  local mine, lease = fence .. ' ' .. token .. ' ', f.lease
  if f.state ~= 'active' or not lease or not f.spec or string.sub(lease, 1, #mine) ~= mine or
     string.sub(lease, -1 - #agent) ~= ' ' .. agent or (f.history or '') ~= '' or f.results then
    return nil
  end
  local logged = f.log_lines and f.log_lines ~= '0'
  if logged and (call('ZCARD', P .. 'logs') >= 1000 or not tonumber(f.log_lines)) then return nil end  -- one would be cut
  local best, value = f.best_objective, tonumber(objective)
  if best and best ~= '' and value then
    local sound, spec = pcall(cjson.decode, f.spec)
    local before, goal = tonumber(best), f.goal or sound and type(spec) == 'table' and spec.goal
    if not before or (goal == 'maximize' and value > before) or (goal ~= 'maximize' and value < before) then
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
    local c, g, p = string.match(shapes[i], '^c(%d+)g(%d+)p?(%x*)$')
    if not c or #c > 9 or #g > 9 then return nil end  -- as no job can need
    local runs = p == '' or programs ~= '' and not string.find(programs .. ' ', ' ' .. p .. ' ', 1, true)
    if runs and tonumber(c) <= cpus and (g == '0' or tonumber(g) <= tonumber(free_gpus)) then
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
  local n, g = record.err and 0 or #record, {}
  for i = 1, n, 2 do g[record[i]] = record[i + 1] end
  local spec, before, failures = g.spec, 0, tonumber(g.failures or 0) or -1
  if g.lease then before = tonumber(string.match(g.lease, '^(%d+) ') or -1) end
  local sound = before >= 0 and before < 2 ^ 53 and failures >= 0 and failures < 2 ^ 53
  if not sound or not spec or g.state ~= 'waiting' or (g.sweep or '') ~= sweep or g.most_ranks or
     string.find(spec, '"most_ranks":', 1, true) or (g.graced or '') ~= '' or (g.reason or '') ~= '' then
    return nil
  end
  local shared = g.settings == '@sweep' or not g.settings and string.find(spec, '"settings":"@sweep"', 1, true)
  if shared and known_sweep ~= sweep .. ' ' .. created then return nil end

  -- Nothing was written up to here. First what is removed, as in settle_down.
  local gone, m = {}, 0
  if f.updated_ms or f.graced then  -- a lease can be graced before the first report
    for i = 1, #all, 2 do
      if all[i + 1] == '' then m = m + 1 gone[m] = all[i] end
    end
    for _, name in ipairs({'updated_ms', 'reason', 'cancel', 'stop', 'error', 'exit_code', 'failed_on', 'iteration', 'eta_s', 'loss',
                           'graced', 'due_ms', 'finished_by'}) do
      if f[name] and f[name] ~= '' then m = m + 1 gone[m] = name end
    end
    if f.best_objective and best == objective then m = m + 1 gone[m] = 'best_objective' end
    if f.checkpoint and checkpoint == '-' then m = m + 1 gone[m] = 'checkpoint' end
    if f.total_steps and f.total_steps == f.step then m = m + 1 gone[m] = 'total_steps' end
    if m > 0 then call('HDEL', key, unpack(gone, 1, m)) end
  end
  local kept, k = {'results', '1', 'state', 'succeeded', 'finished_ms', now_text, '', '', '', '', '', ''}, 6
  if seconds ~= '' then kept[7], kept[8], k = 'seconds', seconds, 8 end
  if value then kept[k + 1], kept[k + 2], k = 'objective', objective, k + 2 end
  if best and best ~= objective and best ~= f.best_objective then kept[k + 1], kept[k + 2], k = 'best_objective', best, k + 2 end
  if checkpoint ~= '' and checkpoint ~= '-' then kept[k + 1], kept[k + 2], k = 'checkpoint', checkpoint, k + 2 end
  if metrics ~= '' then kept[k + 1], kept[k + 2], k = 'metrics', metrics, k + 2 end
  call('HSET', key, unpack(kept, 1, k))
  call('ZREM', P .. 'state:active', id)
  call('ZADD', P .. 'state:succeeded', now_text, id)
  call('ZREM', leases, id)
  call('DEL', P .. 'token:' .. token)
  if logged then call('ZADD', P .. 'logs', now_text, id) end
  call('XADD', P .. 'events', 'MAXLEN', '~', event_limit, '*', 'event', 'finish', 'job', id, 'from', 'active', 'to', 'succeeded',
       'fence', fence, 'agent', agent)
  call('HINCRBY', P .. 'totals', 'succeeded', 1)

  -- The claim.
  local raised, attempt, deadline = format('%d', before + 1), format('%d', failures + 1), format('%d', now + tonumber(term_ms))
  call('ZREM', P .. 'waiting:' .. shape, next_id)
  call('ZREM', P .. 'state:waiting', next_id)
  call('ZADD', P .. 'state:active', now_text, next_id)
  call('ZADD', leases, deadline, next_id)
  local next_lease = table.concat({raised, next_token, attempt, now_text, term_ms, agent}, ' ')
  if g.updated_ms then
    call('HSET', next_key, 'state', 'active', 'lease', next_lease, 'updated_ms', now_text)
  else
    call('HSET', next_key, 'state', 'active', 'lease', next_lease)
  end
  call('SET', P .. 'token:' .. next_token, next_id, 'PX', format('%d', lifetime_ms(tonumber(term_ms))))
  call('XADD', P .. 'events', 'MAXLEN', '~', event_limit, '*', 'event', 'claim', 'job', next_id, 'from', 'waiting', 'to', 'active',
       'fence', raised, 'agent', agent)
  call('HINCRBY', P .. 'totals', 'claimed', 1)
  record[n + 1], record[n + 2] = 'lease', next_lease
  return {'ok', 'lease', next_id, deadline, cmsgpack.pack(record), shared and '@sweep' or '', shared and created or ''}
end
local fast_answer = finish_and_claim()
if fast_answer then return fast_answer end
