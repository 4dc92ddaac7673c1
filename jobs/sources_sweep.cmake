list(APPEND job_sources search_space.cpp search_space_json.cpp search_space_quantiles.cpp tpe.cpp tpe_densities.cpp)
