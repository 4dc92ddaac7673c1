list(APPEND job_sources hash_reader.cpp observer.cpp observer_records.cpp observer_statistics.cpp prometheus.cpp)
