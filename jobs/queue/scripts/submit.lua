#!lua
-- ARGV: events, then for each job: id, sweep, trial, number of jobs in after, these, number of fields and values, these.
-- The id is a hash of what shapes the result, so that submitting again, also after a lost answer, adds nothing. Jobs are
-- added one after the other; where one is refused, those before it stay.
local at = 2
local function take(n)
  at = at + n
  return at - n
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
  local sequence = call('INCR', P .. 'sequence')
  set(id, 'sequence', int(sequence), 'submitted_ms', int(now), unpack(ARGV, fields_from, fields_from + size - 1))
  if #pending > 0 then set(id, 'pending', int(#pending)) end
  call('ZADD', P .. 'ids', 0, id)
  if sweep ~= '' then call('ZADD', P .. 'sweep:' .. sweep .. ':jobs', trial, id) end
  count('submitted')
  enter_state(id, #pending > 0 and 'blocked' or 'waiting', 'submit')
  return 'ok'
end

local answers = {'ok'}
while ARGV[at] do
  local head = take(4)
  local needs = tonumber(ARGV[head + 3])
  local needs_from = take(needs)
  local size = tonumber(ARGV[take(1)])
  local answer, refusal = submit(ARGV[head], ARGV[head + 1], ARGV[head + 2], needs_from, needs, take(size), size)
  if refusal then return refusal end
  answers[#answers + 1] = answer
end
return answers
