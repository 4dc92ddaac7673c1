list(APPEND job_sources lines.cpp progress_channel.cpp progress_sender.cpp supervisor.cpp
     supervisor_process.cpp
     launcher.cpp confine.cpp agent.cpp agent_loop.cpp agent_job.cpp agent_outcome.cpp agent_command.cpp
     agent_heartbeat.cpp agent_link.cpp agent_log.cpp agent_slots.cpp agent_socket.cpp)
