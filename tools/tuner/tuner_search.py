#!/usr/bin/env python3
"""Searches with TVM's auto_scheduler under several cost models, with equal numbers of measured programs.

  tools/tuner/tuner_search.py OUT.csv --model BUNDLE [--workers N]
                                                  runs what OUT.csv lacks: tasks x models x seeds, each in a process of its own
  tools/tuner/tuner_search.py OUT.csv --verify --logs FOLDER
                                                  measures the best programs of all searches once more, a task's side by side
  tools/tuner/tuner_search.py OUT.csv --table           prints what was reached, relative to the best known program of each task

Cost models: xgb (TVM's XGBModel, trained on what the search has measured), random (TVM's RandomModel), foretime (a bundle, which stays as
it is), foretime+finetune (a bundle, fine-tuned after each round). Needs TVM with LLVM (0.10 to 0.19; run with 0.14), for xgb Python's
xgboost, for foretime libforetime (FORETIME_LIBRARY).

Programs are built and run as measure/measure.py does it: each in a process of its own, by one thread on one core, while nothing else
runs; search and compilation take all cores. With --workers N, so many searches go on at a time, and a program that is measured has
real-time priority on its core (needs root or CAP_SYS_NICE); they take each other's cores, so that only the processor time of searches
means something. Each round measures 16 programs. The best programs after 16, 32 and 64 trials are measured again at the end, and the
table is made of these. --verify replaces them: the programs of all searches of a task, in several rounds, each in an order of its own
and in processes of its own, so that what the machine does meanwhile meets all of them alike; start nothing beside it. Search time is
all that is no building and no running of programs: sampling, evolution, prediction, training.
XGBModel starts with its predictions after the first round (num_warmup_sample 15), as early as it can; by itself it waits for 100 programs.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from tuner_measuring import Clock, best_of_log, cost_of, measure_instead_of_tvm, measured
from programs import ONE_THREAD, require_urgency  # of measure/, where tuner_measuring looks
from tuner_tasks import DRAWN, TASKS, check_target, host_target, installed_llvm, make_task
from tuner_trials import MODELS, append_rows, read_rows, replace_rows, table

ROUND = 16
EMPTY_ROUNDS = 5  # in a row, after which a space counts as searched


def make_model(arguments, seed):
    from tvm import auto_scheduler

    if arguments.cell[1] == "xgb":
        return auto_scheduler.XGBModel(verbose_eval=0, num_warmup_sample=ROUND - 1, seed=seed)
    if arguments.cell[1] == "random":
        return auto_scheduler.RandomModel()
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    from foretime.auto_scheduler import ForetimeModel

    options = {"threads": arguments.threads}
    if arguments.cell[1] == "foretime+finetune":
        options["finetune_every"] = ROUND
        if arguments.finetune_command:
            options["finetune_command"] = arguments.finetune_command.split()
    return ForetimeModel(arguments.model, **options)


def verify_task(arguments, name, cells):
    """{cell: {trial: seconds}}: the medians, over rounds, of the best programs of these searches of one task."""
    from tvm.auto_scheduler.measure import recover_measure_input

    make_task(name, arguments.target)
    programs, places = [], {}
    for cell in cells:
        best, inputs = best_of_log(os.path.join(arguments.logs, "{}-{}-{}.json".format(*cell)), arguments.checkpoints)
        made = {}
        for trial, place in best.items():
            if place not in made:
                made[place] = len(programs)
                programs.append(recover_measure_input(inputs[place], rebuild_state=True))
            places[cell, trial] = made[place]
    seconds = [[] for _ in programs]
    order = list(range(len(programs)))
    for round_number in range(arguments.rounds):
        random.Random(round_number).shuffle(order)
        for place, result in zip(order, measured([programs[place] for place in order], arguments.core, urgent=False)):
            if math.isfinite(cost_of(result)):
                seconds[place].append(cost_of(result))
    verified = collections.defaultdict(dict)
    for (cell, trial), place in places.items():
        if seconds[place]:
            verified[cell][trial] = statistics.median(seconds[place])
    return verified


def verify_all(arguments):
    """Puts the verified times of all searches that have a log into the CSV."""
    rows = read_rows(arguments.out)
    cells = sorted({(row["task"], row["model"], row["seed"]) for row in rows})
    cells = [
        cell
        for cell in cells
        if arguments.logs and os.path.exists(os.path.join(arguments.logs, "{}-{}-{}.json".format(*cell)))
    ]
    if not cells:
        sys.exit("tuner_search.py: --verify needs the --logs of the searches")
    for name in sorted({cell[0] for cell in cells}):
        begin = time.time()
        verified = verify_task(arguments, name, [cell for cell in cells if cell[0] == name])
        for row in rows:
            found = verified.get((row["task"], row["model"], row["seed"]), {}).get(int(row["trial"]))
            if found is not None:
                row["verified_seconds"] = f"{found:.6g}"
        replace_rows(arguments.out, rows)
        print(f"{name}: {len(verified)} searches in {time.time() - begin:.0f} s", flush=True)


def search(arguments):
    """Rows of one search."""
    import numpy
    from tvm import auto_scheduler

    task_name, model_name, seed = arguments.cell[0], arguments.cell[1], int(arguments.cell[2])
    random.seed(seed)
    numpy.random.seed(seed)
    task = make_task(task_name, arguments.target)
    builder, runner = auto_scheduler.LocalBuilder(n_parallel=ROUND), auto_scheduler.LocalRunner()
    callbacks = [auto_scheduler.RecordToFile(arguments.log)] if arguments.log else []
    measurer = auto_scheduler.measure.ProgramMeasurer(builder, runner, callbacks, verbose=0)
    clock, urgent = Clock(), arguments.workers > 1
    measure_instead_of_tvm(clock, arguments.core, urgent)
    policy = auto_scheduler.SketchPolicy(
        task,
        make_model(arguments, seed),
        {"evolutionary_search_population": arguments.population},
        seed=seed,
        verbose=0,
    )
    rows, best, best_place, best_input, best_inputs, empty = [], math.inf, 0, None, {}, 0
    while len(rows) < arguments.trials and empty < EMPTY_ROUNDS:
        clock.mark = None
        inputs, results = policy.continue_search_one_round(min(ROUND, arguments.trials - len(rows)), measurer)
        empty = 0 if len(inputs) else empty + 1
        for program, result in zip(inputs, results):
            seconds = cost_of(result)
            if seconds < best:
                best, best_place, best_input = seconds, len(rows), program
            rows.append([seconds, best, *clock.mark])  # without the training that follows
            if len(rows) in arguments.checkpoints:
                best_inputs[len(rows)] = best_place, best_input
    while len(rows) < arguments.trials:  # the space has no more programs
        rows.append([math.inf, best, *clock.read()])
        if len(rows) in arguments.checkpoints:
            best_inputs[len(rows)] = best_place, best_input
    best_programs = {place: program for place, program in best_inputs.values() if program is not None}
    again = dict(zip(best_programs, map(cost_of, measured(list(best_programs.values()), arguments.core, urgent))))
    verified = {trial: again[place] for trial, (place, program) in best_inputs.items() if program is not None}
    return [
        {
            "task": task_name,
            "model": model_name,
            "seed": seed,
            "trial": trial,
            "seconds": f"{seconds:.6g}",
            "best_seconds": f"{best:.6g}",
            "verified_seconds": f"{verified[trial]:.6g}" if trial in verified else "",
            "search_seconds": f"{wall:.2f}",
            "search_cpu_seconds": f"{cpu:.2f}",
        }
        for trial, (seconds, best, wall, cpu) in enumerate(rows, 1)
    ]


def run_cell(arguments, script, cell):
    """Runs one search in a process of its own. Returns its rows, empty where it failed, and what is to be said of it."""
    begin = time.time()
    with tempfile.TemporaryDirectory(prefix="tuner-search-") as folder:
        result = os.path.join(folder, "rows.json")
        # The same options, but for paths: it runs in another folder.
        command = [
            sys.executable,
            script,
            *sys.argv[1:],
            "--target",
            arguments.target,
            "--cell",
            *map(str, cell),
            "--result",
            result,
        ]
        if arguments.model:
            command += [
                "--model",
                os.path.abspath(arguments.model) if os.path.exists(arguments.model) else arguments.model,
            ]
        if arguments.logs:
            os.makedirs(arguments.logs, exist_ok=True)
            log = os.path.join(os.path.abspath(arguments.logs), "{}-{}-{}.json".format(*cell))
            if os.path.exists(log):
                os.remove(log)  # of a search that did not end: TVM appends
            command += ["--log", log]
        try:
            finished = subprocess.run(
                command,
                cwd=folder,
                env=dict(os.environ, TMPDIR=folder),
                timeout=arguments.cell_timeout,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output, code = finished.stdout, finished.returncode
        except subprocess.TimeoutExpired as error:
            output, code = error.stdout or b"", "a timeout"
        lines = output.decode(errors="replace").splitlines()
        if code != 0 or not os.path.exists(result):
            return [], "\n".join([f"ended with {code}", *lines[-15:]])
        with open(result, encoding="utf-8") as file:
            rows = json.load(file)
    return rows, "\n".join(
        [
            *(line for line in lines if line.startswith("fine-tuning:")),
            f"{1e3 * float(rows[-1]['verified_seconds'] or 'inf'):.3f} ms, {rows[-1]['search_seconds']} s of search, "
            f"{time.time() - begin:.0f} s in all",
        ]
    )


def run_all(arguments, script):
    done = collections.Counter((row["task"], row["model"], int(row["seed"])) for row in read_rows(arguments.out))
    cells = [
        (task, model, seed)
        for seed in range(1, arguments.seeds + 1)
        for task in arguments.tasks
        for model in arguments.compare
    ]
    if any(model.startswith("foretime") for model in arguments.compare) and not arguments.model:
        sys.exit("tuner_search.py: foretime needs --model")
    missing = [cell for cell in cells if done[cell] < arguments.trials]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.workers) as pool:
        running = {pool.submit(run_cell, arguments, script, cell): cell for cell in missing}
        for number, future in enumerate(concurrent.futures.as_completed(running), 1):
            rows, said = future.result()
            failed += not rows
            if rows:
                append_rows(arguments.out, rows)
            print("[{}/{}] {} {} seed {}: {}".format(number, len(missing), *running[future], said), flush=True)
    if failed:
        sys.exit(f"tuner_search.py: {failed} searches failed; the same command tries them again")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out", help="CSV of trials; searches that it has are not run again")
    parser.add_argument("--table", action="store_true", help="print what the CSV has")
    parser.add_argument(
        "--verify", action="store_true", help="measure the best programs of all searches again, side by side"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of --verify (3)")
    parser.add_argument(
        "--model",
        metavar="BUNDLE",
        help="bundle for auto_scheduler records, or the name of one that comes with Foretime",
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        choices=[*DRAWN, *TASKS],
        default=[*DRAWN, *TASKS],
        metavar="TASK",
        help="of " "these: " + ", ".join([*DRAWN, *TASKS]),
    )
    parser.add_argument(
        "--compare",
        nargs="+",
        choices=MODELS,
        help="searches: by default xgb, random and foretime; --table: by default "
        "all that the CSV has, on tasks (of --tasks) and seeds that each of them has searched",
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (3)")
    parser.add_argument("--trials", type=int, default=64, help="measured programs a search (64)")
    parser.add_argument(
        "--population", type=int, default=512, help="states that evolution holds (512; TVM's default is 2048)"
    )
    parser.add_argument("--target", help="TVM target (this machine's vectors)")
    parser.add_argument(
        "--core", type=int, default=max(os.sched_getaffinity(0)), help="core that programs run on (%(default)s)"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="searches at a time (1)")
    parser.add_argument(
        "--threads", type=int, default=0, help="threads of Foretime's model (all cores; with --workers 1)"
    )
    parser.add_argument("--finetune-command", help="words of the command of foretime+finetune, see foretime.finetuning")
    parser.add_argument("--logs", help="folder for the records of each search")
    parser.add_argument("--cell-timeout", type=float, default=3600, help="seconds that one search may take (3600)")
    for hidden in ("--result", "--log"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.checkpoints = {trial for trial in (16, 32, 64) if trial <= arguments.trials} | {arguments.trials}
    if arguments.workers < 1:
        parser.error(f"--workers {arguments.workers}: expected 1 or more")
    arguments.threads = arguments.threads or (1 if arguments.workers > 1 else len(os.sched_getaffinity(0)))
    os.environ.update(ONE_THREAD)  # of programs that run; before TVM is loaded
    if arguments.table:
        table(arguments)
        return
    arguments.target = arguments.target or host_target(installed_llvm())
    arguments.compare = arguments.compare or MODELS[:3]
    check_target(arguments.target)
    if arguments.verify:
        verify_all(arguments)
    elif arguments.cell:
        rows = search(arguments)
        with open(arguments.result, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    else:
        if arguments.workers > 1:
            require_urgency(f"--workers {arguments.workers}")
        run_all(arguments, os.path.abspath(__file__))


if __name__ == "__main__":
    main()
