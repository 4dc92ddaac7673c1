#!lua flags=allow-oom
-- ARGV: events, name, host, version, pid, cpus, gpus, jobs, 1 where it leaves, why it claims nothing,
-- 1 where it runs programs of jobs.
-- A register for people; leases alone decide who holds what. What says nothing new is written twice a minute only.
local name = ARGV[2]
local key = P .. 'agent:' .. name
local FIELDS = {'host', 'version', 'pid', 'cpus', 'gpus', 'jobs'}
local function is_news()
  local f = call('HMGET', key, 'seen_ms', unpack(FIELDS))
  local more = call('HMGET', key, 'trouble', 'programs')
  if more[1] ~= ARGV[10] or more[2] ~= ARGV[11] then return true end
  local age = now - num(f[1])
  for i = 1, #FIELDS do
    if f[i + 1] ~= ARGV[i + 2] then return true end
  end
  return age < 0 or age >= 30000
end
touch()
if ARGV[9] == '1' then
  call('DEL', key)
  call('ZREM', P .. 'agents', name)
elseif is_news() then
  call('HSET', key, 'host', ARGV[3], 'version', ARGV[4], 'pid', ARGV[5], 'cpus', ARGV[6], 'gpus', ARGV[7], 'jobs',
       ARGV[8], 'format', int(SWEEP_FORMAT), 'trouble', ARGV[10], 'programs', ARGV[11], 'seen_ms', int(now))
  call('HSETNX', key, 'started_ms', int(now))
  call('ZADD', P .. 'agents', int(now), name)
end
local silent = call('ZRANGEBYSCORE', P .. 'agents', '-inf', '(' .. int(math.min(now, trusted_now()) - 24 * 3600 * 1000), 'LIMIT', 0, BATCH)
for _, gone in ipairs(silent) do
  call('DEL', P .. 'agent:' .. gone)
  call('ZREM', P .. 'agents', gone)
end
return {'ok'}
