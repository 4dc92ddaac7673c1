#!/usr/bin/env python3
"""What TVM makes of schedules: the oracle of Foretime's replay and features (tests/data/frontends/ansor).

  tools/tuner/measure/golden_states.py OUT --attached LIB [--target cuda --tasks 2]

Writes OUT_dags.jsonl.gz, and OUT_states.jsonl.gz with a line a state: steps, stages with their iterators, bounds and places, and for the
first of a task TVM's features, 164 a store. States are drawn at random, of each task as many kinds (by the names of their steps) as
there are. LIB: attached_stages.cc, compiled. Needs TVM 0.14.
"""
import argparse
import collections
import ctypes
import gzip
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.append(str(HERE.parents[2] / "python" / "foretime"))  # at the end: its queue is not Python's

import tvm  # noqa: E402
from compute_dag import compute_dag, text  # noqa: E402
from tvm import auto_scheduler, tir  # noqa: E402
from tvm.auto_scheduler import MeasureInput, MeasureResult  # noqa: E402
from tvm.auto_scheduler.measure import recover_measure_input  # noqa: E402
from tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string  # noqa: E402
from tvm.auto_scheduler.feature import get_per_store_features_from_measure_pairs  # noqa: E402

import tasks as task_list  # noqa: E402
from measure import make_task, policy_of  # noqa: E402

NOTHING = MeasureResult([1.0], 0, "", 1.0, 1.0)  # measured
KINDS = ("spatial", "reduce", "mixed", "special")
PLACES = ("root", "inlined", "iter")
ANNOTATIONS = (
    "none",
    "unroll",
    "vectorize",
    "parallel",
    "vthread",
    "blockIdx.x",
    "threadIdx.x",
    "blockIdx.y",
    "threadIdx.y",
    "blockIdx.z",
    "threadIdx.z",
    "tensorize",
)
OF_OPERATOR = {"conv2d": 24, "dense": 8, "batch_matmul": 6, "reduction": 12, "pool2d": 6, "softmax": 6}  # tasks; else 4


def number(value):
    return int(value) if isinstance(value, (int, tir.IntImm)) else text(value)


def stages_of(state):
    attached = {
        int(stage): [int(to), int(at)] for stage, to, at in tvm.get_global_func("foretime.attached_stages")(state)
    }
    attributes, found = tvm.get_global_func("foretime.stage_attributes")(state), []
    for place, stage in enumerate(state.stages):
        iters = [
            {
                "name": it.name,
                "min": number(it.range.min),
                "extent": number(it.range.extent),
                "kind": KINDS[int(it.iter_kind)],
                "annotation": ANNOTATIONS[int(it.annotation)],
            }
            for it in stage.iters
            if it.range is not None
        ]
        found.append(
            {
                "id": place,
                "name": stage.op.name,
                "op_type": "compute" if int(stage.op_type) == 1 else "input",
                "compute_at": PLACES[int(stage.compute_at)],
                "attach": attached.get(place),
                "auto_unroll_max_step": int(attributes[place][0]),
                "storage_offset": int(attributes[place][1]),
                "shape": [int(extent) for extent in stage.op.output(0).shape],
                "iters": iters,
            }
        )
    return found


def chosen_tasks():
    """Of each operator some, at least one of each form of its arguments that are no sizes."""
    counts, forms, chosen = {}, set(), []
    for task in task_list.training_tasks():
        operator, a = task["operator"], task["arguments"]
        form = operator, *(
            str(value)
            for name, value in sorted(a.items())
            if isinstance(value, str) or name in ("d", "s", "log", "masked", "axis")
        )
        form += (a.get("g", 1) > 1, a.get("g", 1) == a.get("ci"))
        new = form not in forms
        if counts.get(operator, 0) < OF_OPERATOR.get(operator, 4) and (new or counts.get(operator, 0) < 3):
            forms.add(form)
            counts[operator] = counts.get(operator, 0) + 1
            chosen.append(task)
    return chosen


def states_of(search_task, seed, most):
    """(state, its steps), of lists of steps with different names; the longest lists have most kinds of steps: cache stages, rfactor."""
    kinds = {}
    for state in policy_of(search_task, auto_scheduler.RandomModel(), seed).sample_initial_population():
        steps = json.loads(dump_record_to_string(MeasureInput(search_task, state), NOTHING))["i"][1][1]
        kinds.setdefault(tuple(step[0] for step in steps), (state, steps))
    return [kinds[names] for names in sorted(kinds, key=lambda names: (-len(set(names)), names))[:most]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out")
    parser.add_argument("--attached", required=True, help="attached_stages.cc, compiled")
    parser.add_argument("--each", type=int, default=3, help="states of a task (3)")
    parser.add_argument(
        "--target", default="llvm -mcpu=skylake-avx512", help="TVM target; of cuda no GPU is needed (%(default)s)"
    )
    parser.add_argument("--tasks", type=int, default=10**6, help="of each operator at most")
    arguments = parser.parse_args()
    ctypes.CDLL(os.path.abspath(arguments.attached), ctypes.RTLD_GLOBAL)
    target = tvm.target.Target(arguments.target)
    line, counts = 0, collections.Counter()
    with gzip.open(arguments.out + "_dags.jsonl.gz", "wt") as dags, gzip.open(
        arguments.out + "_states.jsonl.gz", "wt"
    ) as out:
        for place, task in enumerate(chosen_tasks()):
            counts[task["operator"]] += 1
            if counts[task["operator"]] > arguments.tasks:
                continue
            search_task = make_task(task, target)
            key = search_task.workload_key
            try:
                states = states_of(search_task, place, arguments.each)
            except tvm.TVMError as error:  # some of TVM's rules for GPUs make states that it cannot build itself
                print(f"{task_list.key(task)}: left out: {str(error).strip().splitlines()[-1][:120]}")
                continue
            dags.write(json.dumps(compute_dag(search_task.compute_dag, key)) + "\n")
            for order, (state, steps) in enumerate(states):
                # As a sampled state has them, tensors that rfactor made have the shapes of before its lengths were
                # drawn.
                steps_alone, _ = load_record_from_string(
                    dump_record_to_string(MeasureInput(search_task, state), NOTHING)
                )
                bounded = recover_measure_input(steps_alone, rebuild_state=True).state
                line += 1
                entry = {
                    "workload_key": key,
                    "line": line,
                    "task": task_list.key(task),
                    "steps": steps,
                    "stages": stages_of(getattr(bounded, "state_object", bounded)),
                }
                if order == 0:
                    rows = get_per_store_features_from_measure_pairs([MeasureInput(search_task, state)], [NOTHING])[0][
                        0
                    ]
                    if len(rows) > 1 or rows[0].any():  # TVM answers a row of zeros where it cannot lower a program
                        entry["features"] = [[float(f"{value:.7g}") for value in row] for row in rows.tolist()]
                out.write(json.dumps(entry) + "\n")
    print(f"{arguments.out}: {line} states of {sum(min(count, arguments.tasks) for count in counts.values())} tasks")


if __name__ == "__main__":
    main()
