list(APPEND job_sources lines.cpp progress_channel.cpp progress_sender.cpp supervisor.cpp
     supervisor_process.cpp
     launcher.cpp confine.cpp)
