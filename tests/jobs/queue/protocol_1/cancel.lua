-- ARGV: events, job.
local state = get(ARGV[2], 'state')
if state == '' then return unknown_job(ARGV[2]) end
if FINAL[state] then return {'final'} end
cancel_or_ask(ARGV[2], 'cancelled by request')
return {state == 'active' and 'requested' or 'cancelled'}
