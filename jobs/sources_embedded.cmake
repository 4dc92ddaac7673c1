list(APPEND job_sources embedded_redis.cpp embedded_folder.cpp embedded_guardian.cpp)
