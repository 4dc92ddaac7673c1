#!/usr/bin/env python3
"""Writes the stage table of TVM auto_scheduler tasks: one JSON line a workload key, which is all that Foretime needs of TVM.

  tools/export_dags.py OUT.jsonl.gz --tasks FILE.pkl ...    pickled lists of SearchTask, as TenSet's task files hold them
  tools/export_dags.py OUT.jsonl.gz --script FILE.py        a script that defines tasks(), which returns SearchTasks
  tools/export_dags.py OUT.jsonl.gz --records LOG --script FILE.py
                                                            the workloads of a log; the script registers their functions

Runs with Python 3.7 or later and TVM 0.8 to 0.14 (later ones have no auto_scheduler). Written against their sources; this project's
machines have no TVM, and it has never been run there. What it writes is checked by Foretime's reader when it is read.
"""
import argparse
import gzip
import json
import os
import pickle
import runpy
import sys

try:
    import tvm
    from tvm import auto_scheduler, te, tir
except ImportError:
    sys.exit("export_dags.py: needs a Python with TVM (0.8 to 0.14): import tvm failed")

COMBINERS = {"Add": "sum", "Max": "max", "Min": "min"}
ACCURATE_BITS = 53


def text(expression):
    """The expression as TVM printed it before 0.11: what later versions call the legacy form."""
    printed = expression.legacy_repr() if hasattr(expression, "legacy_repr") else str(expression)
    if "(OMITTED)" in printed:
        raise ValueError(f"TVM leaves out the middle of a long expression: {printed[:60]}…")
    return printed


def integer(value):
    """A constant as an int, anything else as text."""
    return int(value) if isinstance(value, (int, tir.IntImm)) else text(value)


def reads_of(body, numbers):
    """The accesses to other stages, in the order of the body."""
    reads = []

    def visit(node):
        if not isinstance(node, tir.ProducerLoad):
            return
        op = node.producer.op
        reads.append({"op": numbers[op], "name": op.name, "indices": [text(index) for index in node.indices]})

    for expression in body:
        tir.stmt_functor.post_order_visit(tir.Evaluate(expression), visit)
    return reads


def combiner_and_body(op):
    """(name of the combiner or None, text of what is combined or computed)."""
    body = op.body[0]
    if not isinstance(body, tir.Reduce):
        return None, ", ".join(text(part) for part in op.body)
    results = [type(result).__name__ for result in body.combiner.result]
    name = COMBINERS.get(results[0], results[0].lower()) if len(results) == 1 else "tuple"
    return name, ", ".join(text(source) for source in body.source)


def stage(number, op, numbers, read_by):
    out = {"id": number, "name": op.name, "dtype": str(op.output(0).dtype),
           "shape": [int(extent) for extent in op.output(0).shape]}
    if isinstance(op, te.PlaceholderOp):
        out["kind"] = "place" "holder"
        return out
    if not isinstance(op, te.ComputeOp):
        raise ValueError(f"stage {number} ({op.name}): {type(op).__name__}, expected a computation")
    combiner, body = combiner_and_body(op)
    out.update({
        "kind": "compute",
        "axes": [[axis.var.name, integer(axis.dom.extent)] for axis in op.axis],
        "reduce_axes": [[axis.var.name, integer(axis.dom.extent)] for axis in op.reduce_axis],
        "combiner": combiner, "body": body, "tag": op.tag, "reads": reads_of(op.body, numbers),
        "is_output": op not in read_by,
    })
    return out


def stage_table(dag, workload_key):
    """The table of one DAG; stages have the numbers that records use."""
    ops = list(dag.ops)
    numbers = {op: number for number, op in enumerate(ops)}
    read_by = set()
    for op in ops:
        read_by.update(tensor.op for tensor in op.input_tensors)
    flops = float(dag.flop_ct)
    if flops >= 2**ACCURATE_BITS:
        print(f"export_dags.py: {workload_key}: {flops:g} operations are not exact in a float", file=sys.stderr)
    return {"workload_key": workload_key, "flop_ct": flops,
            "stages": [stage(number, op, numbers, read_by) for number, op in enumerate(ops)],
            "printed": str(dag)}


def tasks_of(arguments):
    """(workload key, DAG) of all that was asked for."""
    script = runpy.run_path(arguments.script) if arguments.script else {}
    for path in arguments.tasks:
        with open(path, "rb") as file:
            tasks = pickle.load(file)
        for task in tasks[0] if isinstance(tasks, tuple) else tasks:
            yield task.workload_key, task.compute_dag
    if arguments.records:
        keys = dict.fromkeys(measured.task.workload_key for measured, _ in auto_scheduler.load_records(arguments.records))
        for key in keys:
            yield key, auto_scheduler.ComputeDAG(key)
    elif "tasks" in script:
        for task in script["tasks"]():
            yield task.workload_key, task.compute_dag
    elif arguments.script:
        sys.exit(f"export_dags.py: {arguments.script}: defines no tasks()")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out", help="stage table to write, .jsonl or .jsonl.gz")
    parser.add_argument("--tasks", nargs="+", default=[], help="pickled lists of SearchTask")
    parser.add_argument("--script", help="Python file with tasks(), or with registered workloads")
    parser.add_argument("--records", help="log of records whose workloads are wanted")
    arguments = parser.parse_args()
    if not (arguments.tasks or arguments.script or arguments.records):
        parser.error("nothing to export: give --tasks, --script or --records")
    tables = {}
    for key, dag in tasks_of(arguments):
        if key not in tables:
            tables[key] = stage_table(dag, key)
    opened = gzip.open if arguments.out.endswith(".gz") else open
    unfinished = arguments.out + ".part"
    with opened(unfinished, "wt", encoding="utf-8") as out:
        for table in tables.values():
            out.write(json.dumps(table, ensure_ascii=False) + "\n")
    os.replace(unfinished, arguments.out)
    print(f"{arguments.out}: {len(tables)} workloads, TVM {tvm.__version__}")


if __name__ == "__main__":
    main()
