#!/usr/bin/env python3
"""Searches with TVM's auto_scheduler under several cost models, with equal numbers of measured programs.

  tools/tuner_search.py OUT.csv --model BUNDLE    runs what OUT.csv lacks: tasks x models x seeds, each in a process of its own
  tools/tuner_search.py OUT.csv --verify --logs FOLDER
                                                  measures the best programs of all searches once more, a task's side by side
  tools/tuner_search.py OUT.csv --table           prints what was reached, relative to the best known program of each task

Cost models: xgb (TVM's XGBModel, trained on what the search has measured), random (TVM's RandomModel), foretime (a bundle, which stays as
it is), foretime+finetune (a bundle, fine-tuned after each round). Needs TVM with LLVM (0.10 to 0.19; run with 0.14), for xgb Python's
xgboost, for foretime libforetime (FORETIME_LIBRARY).

Programs run on one core, to which they are pinned, by one thread; search and compilation take all cores. Each round measures 16
programs. The best programs after 16, 32 and 64 trials are measured again at the end, longer, and the table is made of the medians of
these. --verify replaces them: the programs of all searches of a task, in several rounds, each in an order of its own and in a process
of its own, so that what the machine does meanwhile meets all of them alike. Search time is all that is no building and no running of programs: sampling, evolution, prediction, training.
XGBModel starts with its predictions after the first round (num_warmup_sample 15), as early as it can; by itself it waits for 100 programs.
"""
import argparse
import collections
import csv
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

ROUND = 16
MODELS = ("xgb", "random", "foretime", "foretime+finetune")
FIELDS = ("task", "model", "seed", "trial", "seconds", "best_seconds", "verified_seconds", "search_seconds", "search_cpu_seconds")
EMPTY_ROUNDS = 5  # in a row, after which a space counts as searched
FAILED = 1e9      # costs from here on are TVM's mark of a failure


def tensor(name, *shape):
    """An input of a program."""
    from tvm import te
    return getattr(te, "place" "holder")(shape, name=name)


def conv2d():
    from tvm import topi
    data, kernel = tensor("data", 1, 28, 28, 96), tensor("kernel", 3, 3, 96, 128)
    bias = tensor("bias", 1, 1, 1, 128)
    out = topi.nn.conv2d_nhwc(data, kernel, stride=1, padding=1, dilation=1, out_dtype="float32")
    return [data, kernel, bias, topi.nn.relu(topi.add(out, bias))]


def conv2d_strided():
    from tvm import topi
    data, kernel = tensor("data", 1, 48, 60, 60), tensor("kernel", 64, 48, 5, 5)
    return [data, kernel, topi.nn.conv2d_nchw(data, kernel, stride=2, padding=2, dilation=1, out_dtype="float32")]


def depthwise_conv2d():
    from tvm import topi
    data, kernel = tensor("data", 1, 56, 56, 144), tensor("kernel", 5, 5, 144, 1)
    return [data, kernel, topi.nn.relu(topi.nn.depthwise_conv2d_nhwc(data, kernel, stride=1, padding=2, dilation=1))]


def dense():
    from tvm import topi
    data, weight = tensor("data", 64, 768), tensor("weight", 1024, 768)
    bias = tensor("bias", 1024)
    return [data, weight, bias, topi.nn.relu(topi.nn.dense(data, weight, bias))]


def batch_matmul():
    from tvm import topi
    left, right = tensor("left", 16, 96, 128), tensor("right", 16, 160, 128)
    return [left, right, topi.nn.batch_matmul(left, right)]


def softmax():
    from tvm import topi
    data = tensor("data", 1024, 1000)
    return [data, topi.nn.softmax(data, axis=1)]


def max_pool():
    from tvm import topi
    data = tensor("data", 1, 96, 71, 71)
    return [data, topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), pool_type="max", layout="NCHW")]


def avg_pool():
    from tvm import topi
    data = tensor("data", 1, 64, 64, 96)
    return [data, topi.nn.pool2d(data, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), pool_type="avg", layout="NHWC")]


TASKS = {function.__name__: function for function in
         (conv2d, conv2d_strided, depthwise_conv2d, dense, batch_matmul, softmax, max_pool, avg_pool)}


def host_target():
    """LLVM for this machine's vectors."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        flags = set(text.split("flags", 1)[1].split("\n", 1)[0].split())
    except (OSError, IndexError):
        return "llvm"
    flags.add("amd" if "AuthenticAMD" in text else "")
    for needed, cpu in (({"amd", "avx512f", "avx512_bf16", "avx512_vnni", "avx512_vbmi2"}, "znver4"),
                        ({"avx512f", "avx512bw", "avx512vl", "avx512dq"}, "skylake-avx512"), ({"avx2", "fma"}, "core-avx2")):
        if needed <= flags:
            return "llvm -mcpu=" + cpu
    return "llvm"


def vector_bytes(target):
    return 64 if "avx512" in target or "znver4" in target else 32 if "avx2" in target else 16


class Clock:
    """Seconds, of the wall and of this process, less those between `pause` and `resume`. `mark` is where it paused first since
    it was set to None."""

    def __init__(self):
        self._start = self._now()
        self._paused = None
        self.mark = None

    @staticmethod
    def _now():
        return time.perf_counter(), time.process_time()

    def read(self):
        return tuple(now - start for now, start in zip(self._paused or self._now(), self._start))

    def pause(self):
        self._paused = self._now()
        self.mark = self.mark or self.read()

    def resume(self):
        self._start = tuple(now - passed for now, passed in zip(self._now(), self.read()))
        self._paused = None


def take_measuring_apart(clock, core):
    """Stops the clock while programs are built and run; runs them on one core by one thread."""
    import tvm._ffi
    from tvm.auto_scheduler import measure

    def timed(function):
        def call(*arguments):
            clock.pause()
            try:
                return function(*arguments)
            finally:
                clock.resume()
        return call

    def pinned(function):
        def call(*arguments):
            cores, environment = os.sched_getaffinity(0), dict(os.environ)
            os.sched_setaffinity(0, {core})
            os.environ.update(TVM_NUM_THREADS="1", TVM_BIND_THREADS="0", OMP_NUM_THREADS="1")
            try:
                return function(*arguments)
            finally:
                os.environ.clear()
                os.environ.update(environment)
                os.sched_setaffinity(0, cores)
        return call

    tvm._ffi.register_func("auto_scheduler.local_builder.build", timed(measure.local_builder_build), override=True)
    tvm._ffi.register_func("auto_scheduler.local_runner.run", timed(pinned(measure.local_run)), override=True)


def make_task(name, target):
    import tvm
    from tvm import auto_scheduler
    from tvm.auto_scheduler.workload_registry import register_workload_tensors
    llvm = tvm.target.codegen.llvm_version_major()
    if "znver4" in target and llvm < 16:
        sys.exit(f"tuner_search.py: --target {target}: needs LLVM 16, TVM has {llvm}; try -mcpu=skylake-avx512")
    tensors = TASKS[name]()
    dag = auto_scheduler.ComputeDAG(tensors)
    key = register_workload_tensors(dag.workload_key(), tensors)
    target = tvm.target.Target(target)
    hardware = auto_scheduler.HardwareParams(num_cores=1, vector_unit_bytes=vector_bytes(str(target)), cache_line_bytes=64,
                                             max_shared_memory_per_block=0, max_local_memory_per_block=0, max_threads_per_block=0,
                                             max_vthread_extent=0, warp_size=0)
    return auto_scheduler.SearchTask(compute_dag=dag, workload_key=key, target=target, hardware_params=hardware)


def make_model(arguments, seed):
    from tvm import auto_scheduler
    if arguments.cell[1] == "xgb":
        return auto_scheduler.XGBModel(verbose_eval=0, num_warmup_sample=ROUND - 1, seed=seed)
    if arguments.cell[1] == "random":
        return auto_scheduler.RandomModel()
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tuner" / "python"))
    from foretime.auto_scheduler import ForetimeModel
    options = {"threads": arguments.threads}
    if arguments.cell[1] == "foretime+finetune":
        options["finetune_every"] = ROUND
        if arguments.finetune_command:
            options["finetune_command"] = arguments.finetune_command.split()
    return ForetimeModel(arguments.model, **options)


def cost_of(result):
    """Mean seconds of a measurement, or infinity."""
    costs = [float(cost.value) for cost in result.costs]
    return statistics.fmean(costs) if int(result.error_no) == 0 and costs and max(costs) < FAILED else math.inf


def verify(best_inputs, builder):
    """{trial: seconds}: the median of ten longer measurements of the best program at each checkpoint."""
    from tvm import auto_scheduler
    runner = auto_scheduler.LocalRunner(timeout=30, number=1, repeat=10, min_repeat_ms=100)
    verified, seconds = {}, {}
    for trial, (place, measured) in best_inputs.items():
        if place not in seconds:
            result = runner.run([measured], builder.build([measured], 0), 0)[0]
            costs = [float(cost.value) for cost in result.costs]
            seconds[place] = statistics.median(costs) if int(result.error_no) == 0 else math.inf
        verified[trial] = seconds[place]
    return verified


def best_of_log(path, checkpoints):
    """{trial: place among the records} of the best program up to each checkpoint, and the log's measured inputs."""
    from tvm import auto_scheduler
    inputs, results = auto_scheduler.RecordReader(path).read_lines()
    costs = [cost_of(result) for result in results]
    best = {trial: min(range(min(trial, len(costs))), key=costs.__getitem__) for trial in checkpoints}
    return {trial: place for trial, place in best.items() if math.isfinite(costs[place])}, inputs


def verify_task(arguments, name, cells):
    """{cell: {trial: seconds}}: the medians, over rounds, of the best programs of these searches of one task."""
    from tvm import auto_scheduler
    from tvm.auto_scheduler.measure import recover_measure_input
    make_task(name, arguments.target)
    builder = auto_scheduler.LocalBuilder(timeout=20, n_parallel=os.cpu_count())
    runner = auto_scheduler.LocalRunner(timeout=30, number=1, repeat=5, min_repeat_ms=100)
    take_measuring_apart(Clock(), arguments.core)
    programs, places = [], {}
    for cell in cells:
        best, inputs = best_of_log(os.path.join(arguments.logs, "{}-{}-{}.json".format(*cell)), arguments.checkpoints)
        made = {}
        for trial, place in best.items():
            if place not in made:
                made[place] = len(programs)
                programs.append(recover_measure_input(inputs[place], rebuild_state=True))
            places[cell, trial] = made[place]
    built = builder.build(programs, 0)
    seconds = [[] for _ in programs]
    order = list(range(len(programs)))
    for round_number in range(arguments.rounds):
        random.Random(round_number).shuffle(order)
        for place in order:
            result = runner.run([programs[place]], [built[place]], 0)[0]
            costs = [float(cost.value) for cost in result.costs]
            if int(result.error_no) == 0:
                seconds[place].append(statistics.median(costs))
    verified = collections.defaultdict(dict)
    for (cell, trial), place in places.items():
        if seconds[place]:
            verified[cell][trial] = statistics.median(seconds[place])
    return verified


def verify_all(arguments):
    """Puts the verified times of all searches that have a log into the CSV."""
    rows = read_rows(arguments.out)
    cells = sorted({(row["task"], row["model"], row["seed"]) for row in rows})
    cells = [cell for cell in cells if arguments.logs and os.path.exists(os.path.join(arguments.logs, "{}-{}-{}.json".format(*cell)))]
    if not cells:
        sys.exit("tuner_search.py: --verify needs the --logs of the searches")
    for name in sorted({cell[0] for cell in cells}):
        begin = time.time()
        verified = verify_task(arguments, name, [cell for cell in cells if cell[0] == name])
        for row in rows:
            found = verified.get((row["task"], row["model"], row["seed"]), {}).get(int(row["trial"]))
            if found is not None:
                row["verified_seconds"] = f"{found:.6g}"
        aside = arguments.out + ".new"
        with open(aside, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        os.replace(aside, arguments.out)
        print(f"{name}: {len(verified)} searches in {time.time() - begin:.0f} s", flush=True)


def search(arguments):
    """Rows of one search."""
    import numpy
    from tvm import auto_scheduler
    task_name, model_name, seed = arguments.cell[0], arguments.cell[1], int(arguments.cell[2])
    random.seed(seed)
    numpy.random.seed(seed)
    task = make_task(task_name, arguments.target)
    builder = auto_scheduler.LocalBuilder(timeout=20, n_parallel=os.cpu_count())
    runner = auto_scheduler.LocalRunner(timeout=10, number=1, repeat=3, min_repeat_ms=arguments.min_repeat_ms)
    callbacks = [auto_scheduler.RecordToFile(arguments.log)] if arguments.log else []
    measurer = auto_scheduler.measure.ProgramMeasurer(builder, runner, callbacks, verbose=0)
    clock = Clock()
    take_measuring_apart(clock, arguments.core)
    policy = auto_scheduler.SketchPolicy(task, make_model(arguments, seed), {"evolutionary_search_population": arguments.population},
                                         seed=seed, verbose=0)
    rows, best, best_place, best_input, best_inputs, empty = [], math.inf, 0, None, {}, 0
    while len(rows) < arguments.trials and empty < EMPTY_ROUNDS:
        clock.mark = None
        inputs, results = policy.continue_search_one_round(min(ROUND, arguments.trials - len(rows)), measurer)
        empty = 0 if len(inputs) else empty + 1
        for measured, result in zip(inputs, results):
            seconds = cost_of(result)
            if seconds < best:
                best, best_place, best_input = seconds, len(rows), measured
            rows.append([seconds, best, *clock.mark])  # without the training that follows
            if len(rows) in arguments.checkpoints:
                best_inputs[len(rows)] = best_place, best_input
    while len(rows) < arguments.trials:  # the space has no more programs
        rows.append([math.inf, best, *clock.read()])
        if len(rows) in arguments.checkpoints:
            best_inputs[len(rows)] = best_place, best_input
    verified = verify({trial: found for trial, found in best_inputs.items() if found[1] is not None}, builder)
    return [{"task": task_name, "model": model_name, "seed": seed, "trial": trial, "seconds": f"{seconds:.6g}",
             "best_seconds": f"{best:.6g}", "verified_seconds": f"{verified[trial]:.6g}" if trial in verified else "",
             "search_seconds": f"{wall:.2f}", "search_cpu_seconds": f"{cpu:.2f}"}
            for trial, (seconds, best, wall, cpu) in enumerate(rows, 1)]


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if None not in row.values()]


def append_rows(path, rows):
    """Appends a search's rows in one write."""
    new = not os.path.exists(path)
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def run_all(arguments, script):
    done = collections.Counter((row["task"], row["model"], int(row["seed"])) for row in read_rows(arguments.out))
    cells = [(task, model, seed) for seed in range(1, arguments.seeds + 1) for task in arguments.tasks for model in arguments.compare]
    if any(model.startswith("foretime") for model in arguments.compare) and not arguments.model:
        sys.exit("tuner_search.py: foretime needs --model")
    failed = 0
    for number, cell in enumerate(cells, 1):
        if done[cell] >= arguments.trials:
            continue
        begin = time.time()
        with tempfile.TemporaryDirectory(prefix="tuner-search-") as folder:
            result = os.path.join(folder, "rows.json")
            command = [sys.executable, script, arguments.out, "--cell", *map(str, cell), "--result", result, "--trials",
                       str(arguments.trials), "--target", arguments.target, "--core", str(arguments.core), "--threads",
                       str(arguments.threads), "--min-repeat-ms", str(arguments.min_repeat_ms), "--population",
                       str(arguments.population)]
            if arguments.model:
                command += ["--model", os.path.abspath(arguments.model)]
            if arguments.finetune_command:
                command += ["--finetune-command", arguments.finetune_command]
            if arguments.logs:
                os.makedirs(arguments.logs, exist_ok=True)
                log = os.path.join(os.path.abspath(arguments.logs), "{}-{}-{}.json".format(*cell))
                if os.path.exists(log):
                    os.remove(log)  # of a search that did not end: TVM appends
                command += ["--log", log]
            environment = dict(os.environ, TMPDIR=folder)
            try:
                finished = subprocess.run(command, cwd=folder, env=environment, timeout=arguments.cell_timeout, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, check=False)
                output, code = finished.stdout, finished.returncode
            except subprocess.TimeoutExpired as error:
                output, code = error.stdout or b"", "a timeout"
            name = f"[{number}/{len(cells)}] {cell[0]} {cell[1]} seed {cell[2]}"
            if code != 0 or not os.path.exists(result):
                failed += 1
                print(f"{name}: ended with {code}\n" + "\n".join(output.decode(errors="replace").splitlines()[-15:]), flush=True)
                continue
            with open(result, encoding="utf-8") as file:
                rows = json.load(file)
        for line in output.decode(errors="replace").splitlines():
            if line.startswith("fine-tuning:"):
                print(f"{name}: {line}", flush=True)
        append_rows(arguments.out, rows)
        print(f"{name}: {1e3 * float(rows[-1]['verified_seconds'] or 'inf'):.3f} ms, {rows[-1]['search_seconds']} s of search, "
              f"{time.time() - begin:.0f} s in all", flush=True)
    if failed:
        sys.exit(f"tuner_search.py: {failed} searches failed; the same command tries them again")


def spread(values):
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def table(arguments):
    """Prints, for each model, the latency reached relative to the best known program: geometric mean over tasks, mean and
    deviation over seeds. Only searches that all models have done are compared."""
    reached, search_times = {}, {}
    best_known = collections.defaultdict(lambda: math.inf)
    for row in read_rows(arguments.out):
        cell = row["task"], row["model"], int(row["seed"])
        if row["verified_seconds"]:
            seconds = float(row["verified_seconds"])
            reached.setdefault(cell, {})[int(row["trial"])] = seconds
            best_known[row["task"]] = min(best_known[row["task"]], seconds)
        search_times[cell] = float(row["search_seconds"]), float(row["search_cpu_seconds"])
    if not reached:
        sys.exit(f"tuner_search.py: {arguments.out}: no complete search")
    models = [model for model in MODELS if any(cell[1] == model for cell in reached)]
    checkpoints = sorted(set.intersection(*(set(found) for found in reached.values())))
    pairs = [(task, seed) for task, seed in sorted({(cell[0], cell[2]) for cell in reached})
             if all((task, model, seed) in reached for model in models)]
    tasks = [task for task in TASKS if any(task == pair[0] for pair in pairs)]
    seeds = [seed for seed in sorted({pair[1] for pair in pairs}) if all((task, seed) in pairs for task in tasks)]
    if not seeds:
        sys.exit(f"tuner_search.py: {arguments.out}: no seed with all models on the same tasks")
    print(f"{len(tasks)} tasks, {len(seeds)} seeds; latency over that of the best known program, geometric mean over tasks ± deviation over seeds\n")
    print("| model | " + " | ".join(f"{trial} trials" for trial in checkpoints) + " | search, s | of it CPU, s |")
    print("|---|" + "---|" * (len(checkpoints) + 2))
    for model in models:
        columns = [spread([statistics.geometric_mean(reached[task, model, seed][trial] / best_known[task] for task in tasks)
                           for seed in seeds]) for trial in checkpoints]
        times = [search_times[task, model, seed] for task in tasks for seed in seeds]
        print(f"| {model} | " + " | ".join(columns) + " | " + " | ".join(f"{statistics.fmean(part):.1f}" for part in zip(*times)) + " |")
    print(f"\nLatency after {checkpoints[-1]} trials, ms, mean over seeds\n\n| task | best known | " + " | ".join(models) + " |")
    print("|---|---|" + "---|" * len(models))
    for task in tasks:
        means = [statistics.fmean(1e3 * reached[task, model, seed][checkpoints[-1]] for seed in seeds) for model in models]
        print(f"| {task} | {1e3 * best_known[task]:.3f} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out", help="CSV of trials; searches that it has are not run again")
    parser.add_argument("--table", action="store_true", help="print what the CSV has")
    parser.add_argument("--verify", action="store_true", help="measure the best programs of all searches again, side by side")
    parser.add_argument("--rounds", type=int, default=3, help="of --verify (3)")
    parser.add_argument("--model", metavar="BUNDLE", help="bundle for auto_scheduler records, for foretime")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--compare", nargs="+", choices=MODELS, default=list(MODELS[:3]))
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (3)")
    parser.add_argument("--trials", type=int, default=64, help="measured programs a search (64)")
    parser.add_argument("--population", type=int, default=512, help="states that evolution holds (512; TVM's default is 2048)")
    parser.add_argument("--target", default=host_target(), help="TVM target (%(default)s)")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="core that programs run on (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of Foretime's model (%(default)s)")
    parser.add_argument("--min-repeat-ms", type=int, default=60, help="length of each of three measurements of a program (60)")
    parser.add_argument("--finetune-command", help="words of the command of foretime+finetune, see foretime.finetuning")
    parser.add_argument("--logs", help="folder for the records of each search")
    parser.add_argument("--cell-timeout", type=float, default=3600, help="seconds that one search may take (3600)")
    for hidden in ("--result", "--log"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.checkpoints = {trial for trial in (16, 32, 64) if trial <= arguments.trials} | {arguments.trials}
    if arguments.table:
        table(arguments)
    elif arguments.verify:
        verify_all(arguments)
    elif arguments.cell:
        rows = search(arguments)
        with open(arguments.result, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    else:
        run_all(arguments, os.path.abspath(__file__))


if __name__ == "__main__":
    main()
