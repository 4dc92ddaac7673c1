#!lua flags=allow-oom
-- Makes a job that ended without success wait again.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
--
-- Answers {'ok'}.
local id = ARGV[2]
local f = some(id, {'spec', 'state', 'sweep', 'pending', 'after', 'kind'})
local state, pending = f.state, num(f.pending)
if not state then return unknown_job(id) end
if not ended_badly(state) then
  return refused('job ' .. id .. ' is ' .. state .. ': only failed, dead and cancelled jobs can be tried again')
end
if sweep_state(f.sweep or '') == 'cancelled' then
  return refused('job ' .. id .. ': its sweep ' .. f.sweep .. ' was cancelled')
end
-- Blocked again it may only be where everything that it still needs can still succeed.
local needed, needs = 0, list(f.after)
for _, need in ipairs(needs) do
  if call('SISMEMBER', children_key(need), id) == 1 then
    local other = get(need, 'state')
    if ended_badly(other) then
      return refused('job ' .. id .. ': it needs job ' .. need .. ', which ended as ' .. other .. ': retry that one')
    end
    needed = needed + 1
  end
end
if needed < pending then
  return refused('job ' .. id .. ': it needs a job that never succeeded and was forgotten')
end
if needs[1] and f.kind ~= 'train' and call('EXISTS', job_key(needs[1])) == 0 then
  return refused('job ' .. id .. ': it acts on job ' .. needs[1] .. ', which was forgotten: submit that one again')
end
for _, need in ipairs(needs) do
  if call('EXISTS', job_key(need)) == 1 then call('SADD', users_key(need), id) end
end
count('retried')
enter_state(id, pending > 0 and 'blocked' or 'waiting', 'retry',
            {'failures', '0', 'failed_on', '', 'cancel', '', 'reason', '', 'error', '', 'finished_ms', '', 'cancelled_by', '',
             'exit_code', '', 'lost', '', 'lost_step', '', 'lost_shared', '', 'preemptions', '', 'preemptions_step', ''})
settle(id)
return announce({'ok'})
