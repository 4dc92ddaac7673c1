# The queue's twin in memory, for every test that needs a queue and no Redis.
add_library(foretime_memory_queue STATIC memory_queue.cpp memory_queue_state.cpp memory_queue_dump.cpp)
target_link_libraries(foretime_memory_queue PUBLIC foretime_jobs PRIVATE foretime_warnings)
# The same with a real Redis beside it, for tests of both.
add_library(foretime_queue_backends STATIC queue_backends.cpp)
target_link_libraries(foretime_queue_backends PUBLIC foretime_memory_queue PRIVATE foretime_warnings)

find_package(rapidcheck REQUIRED)
foretime_test(queue_property_test SOURCES queue_property_test.cpp LINK foretime_queue_backends rapidcheck)
foretime_test(queue_contract_test SOURCES queue_contract_test.cpp queue_sweep_contract_test.cpp
              LINK foretime_queue_backends)
foretime_test(redis_queue_test SOURCES redis_queue_test.cpp LINK foretime_queue_backends)
