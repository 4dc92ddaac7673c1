"""The tasks of tools/tuner_search.py, for tests."""
import importlib.util
import json

from support import ROOT

_specification = importlib.util.spec_from_file_location("tuner_search", ROOT / "tools" / "tuner_search.py")
tuner_search = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(tuner_search)


def table_of(name):
    """The stage table of a task by name, as it comes back from JSON."""
    from foretime.stage_table import stage_table
    task = tuner_search.make_task(name, "llvm")
    return json.loads(json.dumps(stage_table(task.compute_dag, task.workload_key)))
