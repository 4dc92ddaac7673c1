#!lua flags=allow-oom
-- Keeps the register of agents for people; leases alone decide who holds what. What says nothing new is written twice a
-- minute only. Forgets agents that were silent for a day.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> name of the agent
-- ARGV[3] -> host
-- ARGV[4] -> version of its program
-- ARGV[5] -> process id
-- ARGV[6] -> CPUs
-- ARGV[7] -> GPUs
-- ARGV[8] -> jobs that it runs
-- ARGV[9] -> 1 where it leaves
-- ARGV[10] -> why it claims nothing, or ''
-- ARGV[11] -> 1 where it runs programs of jobs
--
-- Answers {'ok'}.
local name, host, version, pid, cpus, gpus, jobs, leaves, trouble, programs = unpack(ARGV, 2, 11)
local SILENT_MS, NEWS_MS = 24 * 3600 * 1000, 30000
local key = P .. 'agent:' .. name
local said = {'host', host, 'version', version, 'pid', pid, 'cpus', cpus, 'gpus', gpus, 'jobs', jobs, 'trouble', trouble,
              'programs', programs}
local function is_news()
  local names = {'seen_ms'}
  for i = 1, #said, 2 do names[#names + 1] = said[i] end
  local before = call('HMGET', key, unpack(names))
  for i = 2, #before do
    if before[i] ~= said[2 * i - 2] then return true end
  end
  local age = now - num(before[1])
  return age < 0 or age >= NEWS_MS
end
touch()
if leaves == '1' then
  call('DEL', key)
  call('ZREM', P .. 'agents', name)
elseif is_news() then
  call('HSET', key, 'seen_ms', int(now), unpack(said))
  call('HSETNX', key, 'started_ms', int(now))
  call('ZADD', P .. 'agents', int(now), name)
end
local last_heard = '(' .. int(math.min(now, trusted_now()) - SILENT_MS)
for _, gone in ipairs(call('ZRANGEBYSCORE', P .. 'agents', '-inf', last_heard, 'LIMIT', 0, BATCH)) do
  call('DEL', P .. 'agent:' .. gone)
  call('ZREM', P .. 'agents', gone)
end
return {'ok'}
