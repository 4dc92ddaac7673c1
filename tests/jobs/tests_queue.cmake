# The queue's twin in memory, for every test that needs a queue and no Redis.
add_library(foretime_memory_queue STATIC memory_queue.cpp memory_queue_state.cpp)
target_link_libraries(foretime_memory_queue PUBLIC foretime_jobs PRIVATE foretime_warnings)
