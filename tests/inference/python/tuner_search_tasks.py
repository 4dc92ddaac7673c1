"""The tasks of tools/tuner_search.py, for tests."""
import json
import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from tuner_tasks import make_task  # noqa: E402


def table_of(name):
    """The stage table of a task by name, as it comes back from JSON."""
    from foretime.stage_table import stage_table
    task = make_task(name, "llvm")
    return json.loads(json.dumps(stage_table(task.compute_dag, task.workload_key)))
