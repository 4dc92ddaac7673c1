#!lua flags=allow-oom
-- Ends a job whose record its holder cannot read, and nobody else could, so that it ends no agent after the other.
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> job
-- ARGV[3] -> fence of the lease
-- ARGV[4] -> token of the lease
-- ARGV[5] -> agent
-- ARGV[6] -> what is wrong
--
-- Answers {'ok'}, or {'no'} where the lease was lost.
local id, fence, token, agent, what = unpack(ARGV, 2, 6)
local f = record(id)
if not holds(id, fence, token, agent, f) then return {'no'} end
end_unreadable(id, what, f)
woken = math.max(woken, 1)  -- a claim ends a bounded number of them; jobs may wait behind
return announce({'ok'})
