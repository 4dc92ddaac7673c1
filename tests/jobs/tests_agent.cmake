foretime_test(jobs_progress_channel_test SOURCES progress_channel_test.cpp LINK foretime_jobs)
foretime_test(jobs_supervisor_test SOURCES supervisor_test.cpp LINK foretime_jobs)
foretime_test(jobs_launcher_test SOURCES launcher_test.cpp confine_test.cpp LINK foretime_jobs)
# Stands for `foretime` under an agent.
add_executable(jobs_fake_trial fake_trial.cpp)
target_link_libraries(jobs_fake_trial PRIVATE foretime_jobs foretime_warnings)
foretime_test(jobs_agent_test SOURCES agent_test.cpp agent_command_test.cpp LINK foretime_jobs foretime_memory_queue)
target_compile_definitions(jobs_agent_test PRIVATE FORETIME_FAKE_TRIAL="$<TARGET_FILE:jobs_fake_trial>")
add_dependencies(jobs_agent_test jobs_fake_trial)
