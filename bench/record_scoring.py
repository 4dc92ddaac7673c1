#!/usr/bin/env python3
"""Scoring schedules in a tuner: libforetime beside TVM's own features and XGBoost, one thread each, on the same states.

  bench/record_scoring.py MODEL.foretime [--states 512] [--tasks conv2d softmax …] [--target TARGET]

Needs TVM with LLVM and Python's xgboost, and FORETIME_LIBRARY. For each task of tools/tuner/tuner_search.py random states are drawn from its
search space. Ours: states as record text, then text to scores. TVM's: features of each statement, then XGBoost of the size that
auto_scheduler trains (trained here on random labels: time does not depend on them). The best of five rounds counts.
"""
import os
import pathlib
import sys
import time

from common import options_of

os.environ.setdefault("TVM_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools" / "tuner"), str(ROOT / "python")]


def best_of(rounds, work):
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main(arguments):
    import foretime
    import numpy as np
    import tuner_tasks
    import xgboost
    from foretime.auto_scheduler import record_lines
    from foretime.compute_dag import compute_dag
    from tvm import auto_scheduler
    import json

    parser = options_of(__doc__)
    parser.add_argument("bundle")
    parser.add_argument("--states", type=int, default=512)
    parser.add_argument("--tasks", nargs="+", default=list(tuner_tasks.TASKS))
    parser.add_argument("--target", help="TVM target (this machine's vectors)")
    options = parser.parse_args(arguments)
    target = options.target or tuner_tasks.host_target(tuner_tasks.installed_llvm())
    model = foretime.Model(options.bundle)
    print(
        "| task | states | state to text, µs | text to score, µs | ours, candidates/s | TVM features, µs | XGBoost, µs | "
        "TVM's, candidates/s | ours / TVM's |\n|---|---|---|---|---|---|---|---|---|"
    )
    for name in options.tasks:
        task = tuner_tasks.make_task(name, target)
        policy = auto_scheduler.SketchPolicy(task, program_cost_model=auto_scheduler.RandomModel(), verbose=0)
        states = []
        while len(states) < options.states:
            states.extend(policy.sample_initial_population())
        states = [getattr(state, "state_object", state) for state in states[: options.states]]
        workload = model.workload(json.dumps(compute_dag(task.compute_dag, task.workload_key), ensure_ascii=False))
        lines = record_lines(task, states)
        text = best_of(5, lambda: record_lines(task, states))
        score = best_of(5, lambda: workload.score(lines))

        def features_of():
            return auto_scheduler.feature.get_per_store_features_from_states(states, task)

        features = best_of(5, features_of)
        rows = [np.asarray(rows) for rows in features_of()]
        stacked = np.concatenate([r for r in rows if len(r.shape) == 2])
        labels = np.random.default_rng(1).random(len(stacked))
        booster = xgboost.train(
            {"max_depth": 10, "gamma": 0.001, "min_child_weight": 0, "eta": 0.2, "nthread": 1, "verbosity": 0},
            xgboost.DMatrix(stacked, labels),
            300,
        )
        predict = best_of(5, lambda: booster.predict(xgboost.DMatrix(np.concatenate(rows))))
        count, micro = len(states), 1e6 / len(states)
        ours, theirs = count / (text + score), count / (features + predict)
        print(
            f"| {name} | {count} | {text * micro:.0f} | {score * micro:.0f} | {ours:.0f} | {features * micro:.0f} | "
            f"{predict * micro:.0f} | {theirs:.0f} | {ours / theirs:.1f} × |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
