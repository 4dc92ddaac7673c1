list(APPEND job_sources redis_url.cpp redis_connection.cpp redis_client.cpp redis_health.cpp)
