#!lua flags=allow-oom
-- ARGV: events, how many arguments of finish.lua follow, these, then those of claim.lua, each without its events.
-- A slot between two jobs: the end of one, then a claim, whatever came of the end. Answers what both answer.
local n = tonumber(ARGV[2])
if call('EXISTS', children_key(ARGV[3]), P .. 'token:' .. ARGV[n + 4], P .. 'paused', P .. 'delayed') == 0 then
  bare = ARGV[3]
end
local ended = finish({ARGV[1], unpack(ARGV, 3, n + 2)})
if ended.err then return ended end
return {ended[1], unpack(claim({ARGV[1], unpack(ARGV, n + 3)}))}
