list(APPEND job_sources limits.cpp)
