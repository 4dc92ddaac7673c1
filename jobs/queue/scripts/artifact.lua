#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, what to do, then
--   trouble: why the newest checkpoint is not stored.
--   room, keep: the quota unless the queue has one, bytes (0 outside of Redis), the artifact's name, its roles as a JSON
--         array, 1 where the job has succeeded; of keep also its entry, where it is stored, then the keys of its parts
--         without the prefix.
-- Names hold fence and token, so that attempts never write to the same keys. Parts expire until their artifact is kept,
-- so that what nobody keeps is gone by itself.
local id, what, name = ARGV[2], ARGV[6], ARGV[9]
local key, use = job_key(id) .. ':artifacts', P .. 'artifacts:use'
local ROLES, PARTS = {'last', 'best', 'run'}, 14
touch()
if not holds(id, ARGV[3], ARGV[4], ARGV[5], some(id, HELD)) then return {'lost'} end
if what == 'trouble' then
  if (fields(key, 'trouble')[1] or '') ~= ARGV[7] then
    call('HSET', key, 'trouble', ARGV[7])
    call('SADD', P .. 'artifacts', id)
  end
  return {'ok'}
end

local f, all = {}, call('HGETALL', key)
for i = 1, #all, 2 do f[all[i]] = all[i + 1] end
local roles, kept = {}, {}
for _, role in ipairs(ROLES) do roles[role] = f[role] end
for _, role in ipairs(list(ARGV[10])) do roles[role] = name end
-- What has succeeded is not gone on from: the best checkpoint is what others want.
if ARGV[11] == '1' and roles.best then roles.last = roles.best end
for _, of in pairs(roles) do kept[of] = true end
local dropped, freed = {}, 0
for _, field in ipairs(all) do
  local other = string.match(field, '^of:(.*)$')
  if other and f[field] and not kept[other] then
    dropped[#dropped + 1] = other
    freed = freed + num(f['bytes:' .. other])
  end
end

local needed = kept[name]  -- of a job that has ended, another one may be enough
local bytes = needed and tonumber(ARGV[8]) or 0
local change = bytes - (needed and num(f['bytes:' .. name]) or 0) - freed
local used, quota = num(fields(use, 'bytes')[1]), num(fields(P .. 'settings', 'artifact_bytes')[1] or ARGV[7])
if bytes > 0 and change > 0 and used + change > quota then return {'full', int(used), int(quota)} end
if what == 'room' then return {'ok'} end

for i = PARTS, #ARGV do
  if call('EXISTS', P .. ARGV[i]) == 0 then return {'missing'} end
end
call('HSET', key, 'trouble', '')
local elsewhere = ARGV[13] ~= 'redis'
if elsewhere then call('HSET', key, 'store:' .. ARGV[13], '1') end
if needed then
  for i = PARTS, #ARGV do call('PERSIST', P .. ARGV[i]) end
  call('HSET', key, 'of:' .. name, ARGV[12])
  if bytes > 0 then
    call('HSET', key, 'bytes:' .. name, int(bytes), 'parts:' .. name, table.concat(ARGV, ' ', PARTS))
  end
elseif not f['of:' .. name] then
  dropped[#dropped + 1] = name
end
for role, of in pairs(roles) do call('HSET', key, role, of) end
local answer = {'ok'}
for _, other in ipairs(dropped) do
  drop_parts(f['parts:' .. other])
  if not f['bytes:' .. other] and (other ~= name or elsewhere) then answer[#answer + 1] = other end
  call('HDEL', key, 'of:' .. other, 'bytes:' .. other, 'parts:' .. other)
end
if change ~= 0 then call('HINCRBY', use, 'bytes', int(change)) end
call('SADD', P .. 'artifacts', id)
return answer
