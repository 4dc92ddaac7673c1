#!lua flags=allow-oom
-- ARGV: events, job, fence, token, agent, what is wrong.
-- The holder of this lease cannot read the record, and nobody else could: where a newer program wrote it, it waits where
-- only those look that know its format. So that it ends no agent after the other, the job ends here.
local id = ARGV[2]
local f = record(id)
if not holds(id, ARGV[3], ARGV[4], ARGV[5], f) then return {'no'} end
end_unreadable(id, ARGV[6], f)
woken = math.max(woken, 1)  -- a claim ends a bounded number of them; jobs may wait behind
return {'ok'}
