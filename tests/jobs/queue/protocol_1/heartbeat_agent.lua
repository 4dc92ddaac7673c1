-- ARGV: events, name, host, version, pid, cpus, gpus, jobs, 1 where it leaves.
-- A register for people; leases alone decide who holds what.
local name = ARGV[2]
local key = P .. 'agent:' .. name
touch()
if ARGV[9] == '1' then
  call('DEL', key)
  call('ZREM', P .. 'agents', name)
else
  call('HSET', key, 'host', ARGV[3], 'version', ARGV[4], 'pid', ARGV[5], 'cpus', ARGV[6], 'gpus', ARGV[7], 'jobs',
       ARGV[8], 'seen_ms', int(now))
  call('HSETNX', key, 'started_ms', int(now))
  call('ZADD', P .. 'agents', int(now), name)
end
local silent = call('ZRANGEBYSCORE', P .. 'agents', '-inf', '(' .. int(now - 24 * 3600 * 1000), 'LIMIT', 0, BATCH)
for _, gone in ipairs(silent) do
  call('DEL', P .. 'agent:' .. gone)
  call('ZREM', P .. 'agents', gone)
end
return {'ok'}
