# shellcheck shell=bash
# Sourced by the scripts that start ranks on one machine: Open MPI's defaults are for clusters. Open MPI 5 starts ranks by
# PRRTE, whose names are the ones with PRTE.
export OMPI_MCA_rmaps_base_oversubscribe=1                  # more ranks than cores
export OMPI_MCA_hwloc_base_binding_policy=none              # threads of a rank must not share one core
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none        # containers forbid process_vm_readv, and Open MPI says so at length
if [[ $(id -u) == 0 ]]; then                                # containers and CI
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
