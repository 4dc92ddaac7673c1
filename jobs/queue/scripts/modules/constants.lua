-- Module: what the program knows by other names.
local PROTOCOL = '1'            -- kQueueProtocol (jobs/queue/queue.h)
local LARGEST_RECORD = 4194304  -- Limits::kRecord (jobs/queue/job.h)
