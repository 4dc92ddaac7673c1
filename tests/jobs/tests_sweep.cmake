foretime_test(jobs_search_space_test SOURCES search_space_test.cpp LINK foretime_jobs)
foretime_test(jobs_tpe_test SOURCES tpe_test.cpp LINK foretime_jobs)
