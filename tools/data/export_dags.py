#!/usr/bin/env python3
"""Writes the compute DAGs of TVM auto_scheduler tasks: one JSON line a workload key, which is all that Foretime needs of TVM.

  tools/data/export_dags.py -o OUT.jsonl.gz --tasks FILE.pkl ... pickled lists of SearchTask, as TenSet's task files hold them
  tools/data/export_dags.py -o OUT.jsonl.gz --script FILE.py     a script that defines tasks(), which returns SearchTasks
  tools/data/export_dags.py -o OUT.jsonl.gz --records LOG --script FILE.py
                                                            the workloads of a log; the script registers their functions

Runs with Python 3.7 or later and TVM 0.8 to 0.19 (later ones have no auto_scheduler); has been run with 0.14. The lines are made
by python/foretime/compute_dag.py and checked by Foretime's reader when they are read.
"""
import argparse
import gzip
import importlib.util
import json
import os
import pathlib
import pickle
import runpy
import sys

try:
    import tvm
    from tvm import auto_scheduler
except ImportError:
    sys.exit("export_dags.py: needs a Python with TVM (0.8 to 0.19): import tvm failed")

SHARED = pathlib.Path(__file__).resolve().parents[2] / "python" / "foretime" / "compute_dag.py"


def compute_dag_function():
    """compute_dag of the Python package, without the package, which needs more than this script does."""
    specification = importlib.util.spec_from_file_location("compute_dag", SHARED)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.compute_dag


def tasks_of(arguments):
    """(workload key, DAG) of all that was asked for."""
    script = runpy.run_path(arguments.script) if arguments.script else {}
    for path in arguments.tasks:
        with open(path, "rb") as file:
            tasks = pickle.load(file)
        for task in tasks[0] if isinstance(tasks, tuple) else tasks:
            yield task.workload_key, task.compute_dag
    if arguments.records:
        keys = dict.fromkeys(
            measured.task.workload_key for measured, _ in auto_scheduler.load_records(arguments.records)
        )
        for key in keys:
            yield key, auto_scheduler.ComputeDAG(key)
    elif "tasks" in script:
        for task in script["tasks"]():
            yield task.workload_key, task.compute_dag
    elif arguments.script:
        sys.exit(f"export_dags.py: {arguments.script}: defines no tasks()")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", "--output", required=True, help="file of compute DAGs to write, .jsonl or .jsonl.gz")
    parser.add_argument("--force", action="store_true", help="replace the file of --output if it exists")
    parser.add_argument("--tasks", nargs="+", default=[], help="pickled lists of SearchTask")
    parser.add_argument("--script", help="Python file with tasks(), or with registered workloads")
    parser.add_argument("--records", help="log of records whose workloads are wanted")
    arguments = parser.parse_args()
    if not (arguments.tasks or arguments.script or arguments.records):
        parser.error("nothing to export: give --tasks, --script or --records")
    if not arguments.force and os.path.exists(arguments.output) and os.path.getsize(arguments.output):
        sys.exit(f"export_dags.py: {arguments.output}: exists; name another file, or replace it with --force")
    compute_dag = compute_dag_function()
    tables = {}
    for key, dag in tasks_of(arguments):
        if key not in tables:
            tables[key] = compute_dag(dag, key)
    opened = gzip.open if arguments.output.endswith(".gz") else open
    unfinished = arguments.output + ".part"
    with opened(unfinished, "wt", encoding="utf-8") as out:
        for table in tables.values():
            out.write(json.dumps(table, ensure_ascii=False) + "\n")
    os.replace(unfinished, arguments.output)
    print(f"{arguments.output}: {len(tables)} workloads, TVM {tvm.__version__}")


if __name__ == "__main__":
    main()
