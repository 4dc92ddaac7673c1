#!lua flags=allow-oom
-- Keeps what an attempt has stored. Names hold fence and token, so that attempts never write to the same keys. Parts
-- expire until their artifact is kept, so that what nobody keeps is gone by itself.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
-- ARGV[3] -> fence of the lease
-- ARGV[4] -> token of the lease
-- ARGV[5] -> agent
-- ARGV[6] -> what to do: room (may it be stored?), keep, or trouble
-- ARGV[7] -> of trouble: why the newest checkpoint is not stored; otherwise the quota unless the queue has one
-- Of room and keep:
-- ARGV[8] -> bytes of the artifact, 0 outside of Redis
-- ARGV[9] -> its name
-- ARGV[10] -> its roles, a JSON array of last, best and run
-- ARGV[11] -> 1 where the job has succeeded
-- ARGV[12] -> its entry, JSON
-- ARGV[13] -> where it is stored
-- ARGV[14…] -> of keep: the keys of its parts in Redis, without the prefix
--
-- Answers {'ok', names of artifacts outside of Redis that the job has no more…}, {'lost'} where the lease is, {'full',
-- used, quota} or {'missing'} where its parts have gone.
local id, fence, token, agent, what = unpack(ARGV, 2, 6)
local quota_or_trouble, artifact_bytes, name, roles_json, succeeded, entry, store = unpack(ARGV, 7, 13)
local FIRST_PART = 14
local ROLES = {'last', 'best', 'run'}
local key, use = job_key(id) .. ':artifacts', P .. 'artifacts:use'
touch()
if not holds(id, fence, token, agent, some(id, HELD)) then return {'lost'} end
if what == 'trouble' then
  if (fields(key, 'trouble')[1] or '') ~= quota_or_trouble then
    call('HSET', key, 'trouble', quota_or_trouble)
    call('SADD', P .. 'artifacts', id)
  end
  return {'ok'}
end

local f, all = {}, call('HGETALL', key)
for i = 1, #all, 2 do f[all[i]] = all[i + 1] end
local roles, kept = {}, {}
for _, role in ipairs(ROLES) do roles[role] = f[role] end
for _, role in ipairs(list(roles_json)) do roles[role] = name end
-- Nobody continues what has succeeded: the best checkpoint is what others want.
if succeeded == '1' and roles.best then roles.last = roles.best end
for _, artifact in pairs(roles) do kept[artifact] = true end
local dropped, freed = {}, 0
for _, field in ipairs(all) do
  local other = string.match(field, '^of:(.*)$')
  if other and f[field] and not kept[other] then
    dropped[#dropped + 1] = other
    freed = freed + num(f['bytes:' .. other])
  end
end

local needed = kept[name]  -- of a job that has ended, another one may be enough
local bytes = needed and tonumber(artifact_bytes) or 0
local change = bytes - (needed and num(f['bytes:' .. name]) or 0) - freed
local used = num(fields(use, 'bytes')[1])
local quota = num(fields(P .. 'settings', 'artifact_bytes')[1] or quota_or_trouble)
if bytes > 0 and change > 0 and used + change > quota then return {'full', int(used), int(quota)} end
if what == 'room' then return {'ok'} end

for i = FIRST_PART, #ARGV do
  if call('EXISTS', P .. ARGV[i]) == 0 then return {'missing'} end
end
call('HSET', key, 'trouble', '')
local elsewhere = store ~= 'redis'
if elsewhere then call('HSET', key, 'store:' .. store, '1') end
if needed then
  for i = FIRST_PART, #ARGV do call('PERSIST', P .. ARGV[i]) end
  call('HSET', key, 'of:' .. name, entry)
  if bytes > 0 then
    call('HSET', key, 'bytes:' .. name, int(bytes), 'parts:' .. name, table.concat(ARGV, ' ', FIRST_PART))
  end
elseif not f['of:' .. name] then
  dropped[#dropped + 1] = name
end
for role, artifact in pairs(roles) do call('HSET', key, role, artifact) end
local answer = {'ok'}
for _, other in ipairs(dropped) do
  drop_parts(f['parts:' .. other])
  if not f['bytes:' .. other] and (other ~= name or elsewhere) then answer[#answer + 1] = other end
  call('HDEL', key, 'of:' .. other, 'bytes:' .. other, 'parts:' .. other)
end
if change ~= 0 then call('HINCRBY', use, 'bytes', int(change)) end
call('SADD', P .. 'artifacts', id)
return answer
