-- Redis' own clock: those of agents and laptops do not matter.
local function clock_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local function lifetime_ms(term) return term end
