-- ARGV: events, id, sweep, trial, number of jobs in after, these, then fields and values.
-- The id is a hash of what shapes the result, so that submitting again, also after a lost answer, adds nothing.
local id, sweep, trial, needs = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
if call('EXISTS', job_key(id)) == 1 then return {'no'} end
if sweep ~= '' then
  local state = sweep_state(sweep)
  if state == '' then return unknown_sweep(sweep) end
  if state == 'cancelled' then return refused('job ' .. id .. ': its sweep ' .. sweep .. ' was cancelled') end
end
local pending = {}
for i = 6, 5 + needs do
  local need = ARGV[i]
  local state = get(need, 'state')
  local who = 'job ' .. id .. ': it needs job ' .. need
  if state == '' then return refused(who .. ', which is unknown') end
  if ended_badly(state) then return refused(who .. ', which ended as ' .. state .. ': retry that one') end
  if state ~= 'succeeded' then
    if call('SCARD', children_key(need)) >= CHILDREN then
      return refused(who .. ', for which ' .. CHILDREN .. ' jobs wait already')
    end
    pending[#pending + 1] = need
  end
end
-- Nothing was written up to here: a refusal leaves no trace.
for _, need in ipairs(pending) do call('SADD', children_key(need), id) end
local sequence = call('INCR', P .. 'sequence')
set(id, 'id', id, 'sequence', int(sequence), 'pending', int(#pending), 'submitted_ms', int(now), 'attempt', '0',
    'failures', '0', 'fence', '0', 'results', '0', unpack(ARGV, 6 + needs))
call('ZADD', P .. 'ids', 0, id)
if sweep ~= '' then call('ZADD', P .. 'sweep:' .. sweep .. ':jobs', trial, id) end
count('submitted')
enter_state(id, #pending > 0 and 'blocked' or 'waiting', 'submit')
return {'ok'}
