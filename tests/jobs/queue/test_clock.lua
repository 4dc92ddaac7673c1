-- For tests only, and only where the queue was constructed for it: a clock that the test moves.
local function clock_ms() return tonumber(redis.call('GET', KEYS[1] .. 'test_clock') or 0) end
-- Keys expire by the real clock, which a test's does not follow: they must outlive the test.
local function lifetime_ms(term) return math.max(term, 3600000) end
