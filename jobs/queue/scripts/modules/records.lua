-- Module: the keys of the queue and the records of its jobs and sweeps.
-- The modules precede every script, in the order of jobs/CMakeLists.txt. The build puts the whole text into one
-- file for each script, NAME.lua in jobs/scripts in its folder, which is what Redis runs.
-- All keys derive from KEYS[1] and so lie in one slot: a script may touch them in a cluster, and one ACL pattern covers
-- them. The first line of a script holds its flags for Redis: all but those that add to the queue run when memory is at
-- its limit, because they are what frees it.
-- Redis runs a script alone and writes all its effects or, after a crash, none. Each script is bounded in work, and
-- answers that there is more where it reached a bound.
local BATCH = 64       -- jobs that one call moves for one reason
local CHILDREN = 1000  -- jobs that may wait for one job

local P, event_limit = KEYS[1], ARGV[1]
local call = redis.call
local now = clock_ms()

local function refused(message) return {'refused', message} end

-- What most calls need to know of the queue as a whole, in one command.
local queue = call('HMGET', P .. 'settings', 'protocol', 'alive_ms', 'clock_seen', 'clock_trusted')
if not queue[1] and call('EXISTS', P .. 'ids', P .. 'sweeps') == 0 then
  call('HSET', P .. 'settings', 'protocol', PROTOCOL)
elseif queue[1] ~= PROTOCOL then
  return refused('the queue ' .. P .. ' has protocol ' .. (queue[1] or 'none') .. ', expected ' .. PROTOCOL ..
                 ': use the foretime that wrote it, or another --prefix')
end

-- Returns a whole number of up to 53 bits as text; Lua's own conversion rounds to 14 digits.
local format = string.format
local function int(x) return format('%d', x) end
-- Returns the number that a text says, 0 where it says none of up to 53 bits. No field of a record, however damaged, may
-- end a script: what it was about to do for other jobs would never be done.
local function num(x)
  local n = tonumber(x or 0) or 0
  return n >= -2 ^ 53 and n <= 2 ^ 53 and n or 0
end
-- Returns the texts of a JSON array, which may be decoded already; with `kind` = 'number' its numbers.
local function list(text, kind)
  local sound, values = true, text
  if type(text) ~= 'table' then sound, values = pcall(cjson.decode, text or '[]') end
  local texts = {}
  for _, value in ipairs(sound and type(values) == 'table' and values or {}) do
    if type(value) == (kind or 'string') then texts[#texts + 1] = value end
  end
  return texts
end
-- Appends a field and its value to a list of them.
local function add(fields_and_values, name, value)
  local n = #fields_and_values
  fields_and_values[n + 1], fields_and_values[n + 2] = name, value
end

local function job_key(id) return P .. 'job:' .. id end
local function children_key(id) return P .. 'job:' .. id .. ':children' end
local function users_key(id) return P .. 'job:' .. id .. ':users' end
local function sweep_key(id) return P .. 'sweep:' .. id end
local function set(id, ...) call('HSET', job_key(id), ...) end

-- Returns fields of a hash, false where it has none; all are false where the key is of another type.
local function fields(key, ...)
  local f = redis.pcall('HMGET', key, ...)
  return f.err and {} or f
end
local function get(id, field) return fields(job_key(id), field)[1] or '' end

-- What was submitted and never changes is one field, `spec` (JSON), and the newest lease is another, `lease`: few long
-- fields cost less than many short ones. A field by itself rules over what spec says of it: parameters are decided late,
-- and texts that are not UTF-8 are no JSON. Adds to `f` what spec and lease say; `pairs` does not show it.
local function unpacked(f)
  local packed = {}
  if f.spec then
    local sound, spec = pcall(cjson.decode, f.spec)
    for name, value in pairs(sound and type(spec) == 'table' and spec or {}) do
      if type(value) == 'string' or type(value) == 'number' or name == 'after' then packed[name] = value end
    end
  end
  if f.lease then
    packed.fence, packed.token, packed.attempt, packed.claimed_ms, packed.term_ms, packed.agent =
        string.match(f.lease, '^(%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
  end
  return setmetatable(f, {__index = packed})
end
-- Returns the text of the field `lease`. The token is - where the job ended without success, so that nobody holds it.
local function lease_text(fence, token, attempt, claimed_ms, term_ms, agent)
  return table.concat({fence, token, attempt, claimed_ms, term_ms, agent}, ' ')
end

-- Returns all fields of a job by name, and the answer of HGETALL.
local function record(id)
  local all = redis.pcall('HGETALL', job_key(id))
  if all.err then return {}, {} end
  local f = {}
  for i = 1, #all, 2 do f[all[i]] = all[i + 1] end
  return unpacked(f), all
end
-- Returns some fields of a job by name; `spec` and `lease` are among `names` where what they say is asked for.
local function some(id, names)
  local values, f = fields(job_key(id), unpack(names)), {}
  for i, name in ipairs(names) do f[name] = values[i] or nil end
  return unpacked(f)
end

-- What this call asked of sweeps: it changes none of that and asks again.
local sweeps = {}
local function sweep_of(id)
  local s = sweeps[id]
  if not s then
    local values = id == '' and {} or fields(sweep_key(id), 'state', 'method', 'created_ms')
    s = {state = values[1] or '', method = values[2] or '', created = values[3] or ''}
    sweeps[id] = s
  end
  return s
end
local function sweep_state(id) return sweep_of(id).state end

local function unknown_job(id) return refused('job ' .. id .. ' is unknown') end
local function unknown_sweep(id) return refused('sweep ' .. id .. ' is unknown') end
