#!lua
-- Adds jobs, one after the other; where one is refused, those before it stay. The id is a hash of what shapes the result,
-- so that submitting again, also after a lost answer, adds nothing.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- then, for each job:
-- ARGV[i] -> job
-- ARGV[i + 1] -> its sweep, or ''
-- ARGV[i + 2] -> its trial
-- ARGV[i + 3] -> its shape (`place` in modules/states.lua)
-- ARGV[i + 4] -> its priority
-- ARGV[i + 5] -> how many jobs it needs
-- ARGV[i + 6…] -> these jobs
-- ARGV[j] -> how many fields and values follow
-- ARGV[j + 1…] -> fields and values of its record
--
-- Answers {'ok', for each job ok, or no where it is there}.
local next_argument = 2
-- Returns the place of the next `n` arguments, which are then taken.
local function take(n)
  next_argument = next_argument + n
  return next_argument - n
end

-- Entries of sorted sets are written once for all jobs of this call: by key, scores and ids. `announced` are jobs that
-- came to wait and are not in the stream of events yet.
local indexes, shapes, added, at, announced = {}, {}, 0, int(now), {}
local sequence = num(call('GET', P .. 'sequence'))
local function index(key, score, id)
  local entries = indexes[key] or {}
  entries[#entries + 1] = score
  entries[#entries + 1] = id
  indexes[key] = entries
end

-- Adds one event for all jobs that came to wait.
local function write_events()
  if announced[2] then
    call('XADD', P .. 'events', 'MAXLEN', '~', event_limit, '*', 'event', 'submit', 'job', announced[1], 'from', '', 'to',
         'waiting', 'fence', '0', 'agent', '', 'more', table.concat(announced, ' ', 2))
  elseif announced[1] then
    event('submit', announced[1], '', 'waiting', '0', '')
  end
  announced = {}
end

-- Adds a job. `needs` are the places of the jobs that it needs among the arguments, `values` those of its fields and
-- values. Returns its part of the answer, or nil and a refusal.
local function submit(id, sweep, trial, shape, priority, needs, values)
  if call('EXISTS', job_key(id)) == 1 then return 'no' end
  if sweep ~= '' then
    local state = sweep_state(sweep)
    if state == '' then return nil, unknown_sweep(sweep) end
    if state == 'cancelled' then return nil, refused('job ' .. id .. ': its sweep ' .. sweep .. ' was cancelled') end
  end
  local pending = {}
  for i = needs.first, needs.last do
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
  for i = needs.first, needs.last do call('SADD', users_key(ARGV[i]), id) end
  sequence = sequence + 1
  local state = pending[1] and 'blocked' or 'waiting'
  if pending[1] then set(id, 'pending', int(#pending)) end
  set(id, 'sequence', int(sequence), 'submitted_ms', at, 'state', state, unpack(ARGV, values.first, values.last))
  index('ids', '0', id)
  index('state:' .. state, at, id)
  if sweep ~= '' then index('sweep:' .. sweep .. ':jobs', trial, id) end
  if state == 'waiting' then
    index('waiting:' .. shape, int(sequence - priority * 2 ^ 40), id)
    shapes[shape] = true
    woken = woken + 1
    announced[#announced + 1] = id
  else
    write_events()
    event('submit', id, '', state, '0', '')
  end
  added = added + 1
  return 'ok'
end

-- The jobs before a refused one stay, and so their entries are written before the answer.
local function finish(answer)
  if added == 0 then return answer end
  write_events()
  for key, entries in pairs(indexes) do call('ZADD', P .. key, unpack(entries)) end
  for shape in pairs(shapes) do call('SADD', P .. 'shapes', shape) end
  call('SET', P .. 'sequence', int(sequence))
  call('HINCRBY', P .. 'totals', 'submitted', added)
  return announce(answer)
end

-- Returns the places of arguments of which there are as many as the next one says.
local function take_counted()
  local n = tonumber(ARGV[take(1)])
  local first = take(n)
  return {first = first, last = first + n - 1}
end

local answers = {'ok'}
while ARGV[next_argument] do
  local first = take(5)
  local id, sweep, trial, shape, priority = unpack(ARGV, first, first + 4)
  local needs, values = take_counted(), take_counted()
  local answer, refusal = submit(id, sweep, trial, shape, tonumber(priority), needs, values)
  if refusal then return finish(refusal) end
  answers[#answers + 1] = answer
end
return finish(answers)
