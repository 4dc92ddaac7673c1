#!lua flags=allow-oom
-- Gives an agent the lease of the first waiting job that fits (`claim` in modules/lease.lua).
--
-- KEYS[1] -> prefix of all keys with its hash tag, {foretime}:
-- ARGV[1] -> entries that the stream of events keeps
-- ARGV[2] -> agent
-- ARGV[3] -> token of the lease that it would get
-- ARGV[4] -> free CPUs, of each host of the agent with commas between
-- ARGV[5] -> free GPUs
-- ARGV[6] -> term of the lease in ms
-- ARGV[7] -> sweep whose settings the agent knows, as ID CREATED_MS, or ''
-- ARGV[8] -> any and the keys of the programs that the agent lacks, with spaces between; '' where it runs no programs
--
-- Answers {'lease', job, deadline, record (MessagePack of the answer to HGETALL), settings of its sweep, when the sweep
-- was created}, {'none'}, or {'again'} where it reached a bound.
local agent, token, free_cpus, free_gpus, term_ms, known_sweep, programs = unpack(ARGV, 2, 8)
return announce(claim(agent, token, free_cpus, free_gpus, term_ms, known_sweep, programs))
