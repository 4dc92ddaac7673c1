list(APPEND job_sources redis_client.cpp redis_url.cpp)
