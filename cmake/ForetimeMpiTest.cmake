# foretime_mpi_test(NAME TARGET RANKS [ARGUMENTS ...]): one more ctest entry, which runs the test binary TARGET as RANKS
# ranks under mpirun. Ranks may be more than cores, and root may start them (containers); Open MPI takes both from the
# environment, (version 5 those with PRTE), other MPIs ignore it.
set(FORETIME_MPI_TEST_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none OMP_NUM_THREADS=1)

function(foretime_mpi_test name target ranks)
  cmake_parse_arguments(arg "" "" "ARGUMENTS" ${ARGN})
  math(EXPR halves "2 * ${ranks}")
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
           $<TARGET_FILE:${target}> ${MPIEXEC_POSTFLAGS} ${arg_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES PROCESSORS ${halves}
                       ENVIRONMENT "${FORETIME_MPI_TEST_ENVIRONMENT}")
endfunction()
