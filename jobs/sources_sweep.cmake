list(APPEND job_sources search_space.cpp search_space_json.cpp search_space_quantiles.cpp tpe.cpp tpe_densities.cpp
     halving.cpp sweep_yaml.cpp sweep_parameters.cpp sweep_settings.cpp sweep_document.cpp sweep.cpp
     proposer.cpp proposer_redis.cpp)
