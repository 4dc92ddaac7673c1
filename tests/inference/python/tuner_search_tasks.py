"""The tasks of tools/tuner_search.py, for tests."""
import json
import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from tuner_tasks import make_task  # noqa: E402


def table_of(name):
    """The compute DAG of a task by name, as it comes back from JSON."""
    from foretime.compute_dag import compute_dag
    task = make_task(name, "llvm")
    return json.loads(json.dumps(compute_dag(task.compute_dag, task.workload_key)))
