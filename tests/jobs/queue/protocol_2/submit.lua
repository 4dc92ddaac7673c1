#!lua
-- ARGV: events, then for each job: id, sweep, trial, number of jobs in after, these, number of fields and values, these.
-- The id is a hash of what shapes the result, so that submitting again, also after a lost answer, adds nothing. Jobs are
-- added one after the other; where one is refused, those before it stay.
local next_argument = 2
local function take(n)
  next_argument = next_argument + n
  return next_argument - n
end

-- Entries of sorted sets are written once for all jobs of this call: by key, scores and ids.
local indexes, shapes, added, at = {}, {}, 0, int(now)
local sequence = num(call('GET', P .. 'sequence'))
local function index(key, score, id)
  local entries = indexes[key] or {}
  entries[#entries + 1] = score
  entries[#entries + 1] = id
  indexes[key] = entries
end

local function submit(id, sweep, trial, needs_from, needs, fields_from, size)
  if call('EXISTS', job_key(id)) == 1 then return 'no' end
  if sweep ~= '' then
    local state = sweep_state(sweep)
    if state == '' then return nil, unknown_sweep(sweep) end
    if state == 'cancelled' then return nil, refused('job ' .. id .. ': its sweep ' .. sweep .. ' was cancelled') end
  end
  local pending = {}
  for i = needs_from, needs_from + needs - 1 do
    local need = ARGV[i]
    local state = get(need, 'state')
    local who = 'job ' .. id .. ': it needs job ' .. need
    if state == '' then return nil, refused(who .. ', which is unknown') end
    if ended_badly(state) then return nil, refused(who .. ', which ended as ' .. state .. ': retry that one') end
    if state ~= 'succeeded' then
      if call('SCARD', children_key(need)) >= CHILDREN then
        return nil, refused(who .. ', for which ' .. CHILDREN .. ' jobs wait already')
      end
      pending[#pending + 1] = need
    end
  end
  -- Nothing was written up to here: a refusal leaves no trace.
  for _, need in ipairs(pending) do call('SADD', children_key(need), id) end
  for i = needs_from, needs_from + needs - 1 do call('SADD', users_key(ARGV[i]), id) end
  sequence = sequence + 1
  local state = pending[1] and 'blocked' or 'waiting'
  local f = {sequence = int(sequence), kind = nil, sweep = nil, trial = nil, settings = nil, parameters = nil, metric = nil,
             goal = nil, ranks = nil, cpus = nil, max_attempts = nil, format = nil, name = nil}
  for i = fields_from, fields_from + size - 1, 2 do f[ARGV[i]] = ARGV[i + 1] end
  if pending[1] then set(id, 'pending', int(#pending)) end
  set(id, 'sequence', f.sequence, 'submitted_ms', at, 'state', state, 'updated_ms', at,
      unpack(ARGV, fields_from, fields_from + size - 1))
  index('ids', '0', id)
  index('state:' .. state, at, id)
  if sweep ~= '' then index('sweep:' .. sweep .. ':jobs', trial, id) end
  if state == 'waiting' then
    local shape, score = place(f)
    index('waiting:' .. shape, score, id)
    shapes[shape] = true
    woken = woken + 1
  end
  added = added + 1
  event('submit', id, '', state, '0', '')
  return 'ok'
end

-- What stands in front of a refused job stays, and so its entries come before the answer.
local function finish(answer)
  if added == 0 then return answer end
  for key, entries in pairs(indexes) do call('ZADD', P .. key, unpack(entries)) end
  for shape in pairs(shapes) do call('SADD', P .. 'shapes', shape) end
  call('SET', P .. 'sequence', int(sequence))
  call('HINCRBY', P .. 'totals', 'submitted', added)
  return answer
end

local answers = {'ok'}
while ARGV[next_argument] do
  local head = take(4)
  local needs = tonumber(ARGV[head + 3])
  local needs_from = take(needs)
  local size = tonumber(ARGV[take(1)])
  local answer, refusal = submit(ARGV[head], ARGV[head + 1], ARGV[head + 2], needs_from, needs, take(size), size)
  if refusal then return finish(refusal) end
  answers[#answers + 1] = answer
end
return finish(answers)
