#!/usr/bin/env python3
"""Measures programs of many tasks: the records that a model is trained on.

  tools/tuner/measure/measure.py FOLDER [--each 60] [--minutes 30] [--machine NAME] [--from N] [--longest-build SECONDS]
                           [--beside | --builders N | --workers N]

Goes on where it stopped: FOLDER has records.jsonl (auto_scheduler's log), journal.jsonl (a line for each record: task, part, seconds of its
build, cores that others kept busy), dags.jsonl (compute DAGs), drift.jsonl (a reference every few minutes), small.jsonl (tasks of which
neither drawing nor evolution finds more programs) and machine.json. A third of a task's programs is drawn at random, a third comes from
evolution under a model of these, a third from rounds of a search, whose model learns from all before. Programs that do not build within 15
s or do not run within 10 s are kept as what they are.

Programs run one at a time, by one thread pinned to the last core, while nothing else runs: a measurement during which others kept more
than 3 % of a core busy is done again. With --beside the other cores may work, and only the last one is kept free of others: of 44 programs
on two cores of a Xeon, measured alone, beside a compiler and beside a copy of memory, the medians were 1.00 and 1.04, 1.02 and 1.04, 1.04
and 1.04 of the best: the machine by itself drifts as much. With --builders N, which holds what --beside does, N programs at a time are
built on the other cores while the last one measures, which then waits for no compiler. With --workers N, so many tasks at a time are
searched and built, on all cores; a program that is measured has real-time priority, so that its core drops all else at once. On two cores
of an EPYC 7003 with three workers and a compiler beside them, the mean of a program's repetitions is known to 0.32 % in the median, and
the reference stayed within 1.4 % over an hour. A kernel that keeps a part of each second for others
(/proc/sys/kernel/sched_rt_runtime_us, not -1) disturbs programs that take longer than that. Needs TVM 0.8 to 0.19 with LLVM (run with
0.14) and Python's xgboost.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import fcntl
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.append(str(HERE.parents[2] / "python" / "foretime"))  # at the end: its queue is not Python's
from programs import (
    BUILD_TIMEOUT,
    ONE_THREAD,
    Child,
    core_to_itself,
    measure_undisturbed,
    measured_programs,
    on_core,  # noqa: E402
    require_urgency,
    result_of,
    wait_until_built,
)

os.environ.update(ONE_THREAD)  # before TVM is loaded
import numpy as np  # noqa: E402
import tvm  # noqa: E402
from compute_dag import compute_dag  # noqa: E402
from tvm import auto_scheduler  # noqa: E402
from tvm.auto_scheduler import MeasureInput  # noqa: E402
from tvm.auto_scheduler.measure_record import dump_record_to_string  # noqa: E402

import tasks as task_list  # noqa: E402
from operators import OPERATORS  # noqa: E402
from tuner_tasks import check_target, host_target, installed_llvm, search_task  # noqa: E402

PARTS = ("random", "evolution", "search")
ROUND = 10  # programs of a search between two trainings
REFERENCE = 180  # seconds between measurements of the reference
CRASHES = 5  # of a worker, after which it is not started again
POPULATION = 128  # of evolution: half the time of a task is its own, and a part draws few of them
BEST_KEPT = 64  # of those that evolution answers, from which a part is drawn
# TVM 0.14: "key is not in Map" from each program's rewrite of its weights' layouts.
REWRITE_FAILS = ("lstm_cell", "gru_cell")


GPU_LIMITS = {
    "max_shared_memory_per_block": 49152,
    "max_local_memory_per_block": 2**31 - 1,
    "max_threads_per_block": 1024,
    "max_vthread_extent": 8,
    "warp_size": 32,
}


class Folder:
    """Files that only grow, a line at a time; the last line of a file may be cut where somebody pulled the plug."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._read()

    @contextlib.contextmanager
    def _alone(self):
        """Of the workers that share the folder."""
        with open(self.path / "lock", "w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _read(self):
        self.records, self.journal = self._lines("records.jsonl"), [
            json.loads(line) for line in self._lines("journal.jsonl")
        ]
        whole = min(len(self.records), len(self.journal))
        if len(self.records) != len(self.journal):  # one line of the two was written
            self.records, self.journal = self.records[:whole], self.journal[:whole]
            self._rewrite("records.jsonl", self.records)
            self._rewrite("journal.jsonl", [json.dumps(entry) for entry in self.journal])
        self.dags = {json.loads(line)["workload_key"] for line in self._lines("dags.jsonl")}
        self.small = {json.loads(line)["task"] for line in self._lines("small.jsonl")}

    def _lines(self, name):
        try:
            text = (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole = text[: text.rfind("\n") + 1]
        if len(whole) < len(text):
            (self.path / name).write_text(whole, encoding="utf-8")
        return whole.splitlines()

    def _rewrite(self, name, lines):
        (self.path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    def last_drift(self):
        """When the reference was measured last, by this or another worker; 0: never."""
        lines = self._lines("drift.jsonl")
        return json.loads(lines[-1])["time"] if lines else 0.0

    def append(self, name, line):
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def add(self, record, entry):
        with self._alone():
            self.append("records.jsonl", record)
            self.append("journal.jsonl", json.dumps(entry))
        self.records.append(record)
        self.journal.append(entry)

    def add_small(self, task):
        with self._alone():
            self.append("small.jsonl", json.dumps({"task": task}))
        self.small.add(task)

    def add_dag(self, key, dag):
        if key not in self.dags:
            with self._alone():
                self.append("dags.jsonl", json.dumps(compute_dag(dag, key), ensure_ascii=False))
            self.dags.add(key)


def make_task(task, target):
    with target:
        tensors = OPERATORS[task["operator"]](**task["arguments"])
    option = auto_scheduler.LayoutRewriteOption
    rewrite = option.NO_REWRITE if task["operator"] in REWRITE_FAILS else option.get_target_default(target)
    return search_task(
        tensors, target, layout_rewrite_option=rewrite, **(GPU_LIMITS if target.kind.name == "cuda" else {})
    )


class Measured:
    """What is known of one task: its programs and their seconds."""

    def __init__(self, task, seed):
        self.task, self.seed = task, seed
        self.inputs, self.results, self.steps = [], [], set()

    def note(self, measured, result):
        self.inputs.append(measured)
        self.results.append(result)

    def is_new(self, state):
        text = str(state)
        if text in self.steps:
            return False
        self.steps.add(text)
        return True

    def model(self):
        model = auto_scheduler.XGBModel(verbose_eval=0, num_warmup_sample=1, seed=self.seed)
        if any(int(result.error_no) == 0 for result in self.results):
            model.update(self.inputs, self.results)
        return model

    def best_states(self, count):
        order = sorted(range(len(self.results)), key=lambda i: cost_of(self.results[i]))
        return [self.inputs[i].state for i in order[:count] if math.isfinite(cost_of(self.results[i]))]


def cost_of(result):
    return statistics.fmean(float(cost.value) for cost in result.costs) if int(result.error_no) == 0 else math.inf


def policy_of(task, model, seed):
    return auto_scheduler.SketchPolicy(
        task, model, {"evolutionary_search_population": POPULATION}, seed=seed, verbose=0
    )


def random_states(known, count, seed):
    """New ones; fewer where the space has no more."""
    found = []
    for turn in range(8):
        states = list(
            policy_of(known.task, auto_scheduler.RandomModel(), seed + 7919 * turn).sample_initial_population()
        )
        random.Random(seed + turn).shuffle(states)
        for state in states:
            if len(found) < count and known.is_new(state):
                found.append(state)
        if len(found) == count:
            break
    return found


def evolved_states(known, count, seed, best):
    """New ones of those that evolution under the model of what was measured likes; `best`: the best of these, else any."""
    policy = policy_of(known.task, known.model(), seed)
    begin = list(policy.sample_initial_population()) + known.best_states(ROUND)
    states = list(policy.evolutionary_search(begin, BEST_KEPT + count))
    if not best:
        random.Random(seed).shuffle(states)
    return [state for state in states if known.is_new(state)][:count]


def measure_states(known, states, core, alone, builders, urgent, write):
    """Measures programs and keeps what was found, failures with their kind."""
    inputs = [MeasureInput(known.task, state) for state in states]
    for measured, built, found, seconds in measured_programs(inputs, core, alone, builders, urgent):
        result = result_of(built, found, seconds)
        known.note(measured, result)
        write(
            measured,
            result,
            {
                "build": round(built.get("seconds", 0.0), 3),
                "others": found.get("others", 0.0),
                **({"why": found["text"]} if "error" in found else {}),
            },
        )


class Reference:
    """A program that never changes, and a copy, measured every few minutes, by whichever worker finds them due: how far the machine drifts."""

    def __init__(self, folder, core, alone, urgent, target):
        self.folder, self.core, self.alone, self.urgent = folder, core, alone, urgent
        self.task = make_task({"operator": "dense", "arguments": {"m": 256, "k": 256, "n": 256}}, target)
        self.state = self.task.compute_dag.get_init_state()
        self.child = None

    def measure(self):
        with open(self.folder.path / "reference.lock", "w", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another worker is at it
                return
            if not 0 <= time.time() - self.folder.last_drift() < REFERENCE:
                self._measure()

    def _measure(self):
        child = Child(MeasureInput(self.task, self.state), self.core, urgent=self.urgent)
        try:
            wait_until_built([child])
            if "error" in child.built:
                sys.exit(f"measure.py: the reference does not build: {child.built['text']}")
            source, copies = np.ones(1 << 24, np.float32), []
            with core_to_itself(self.core):
                found = measure_undisturbed(child, None if self.alone else self.core, self.urgent)
                with on_core(self.core, self.urgent):
                    for _ in range(5):
                        begin = time.perf_counter()
                        source.copy()
                        copies.append(2 * source.nbytes / (time.perf_counter() - begin) / 1e9)
        finally:
            child.close()
        line = {
            "time": round(time.time(), 1),
            "dense_seconds": statistics.median(found["costs"]),
            "others": found["others"],
            "copy_gb_s": round(statistics.median(copies), 2),
        }
        self.folder.append("drift.jsonl", json.dumps(line))


def machine(name, target, core):
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    field = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines()) if value
    }
    return {
        "machine": name,
        "cpu": field.get("model name", "?"),
        "family": field.get("cpu family"),
        "model": field.get("model"),
        "stepping": field.get("stepping"),
        "mhz": field.get("cpu MHz"),
        "cache": field.get("cache size"),
        "cores": os.cpu_count(),
        "core": core,
        "target": str(target),
        "tvm": tvm.__version__,
        "llvm": installed_llvm(),
        "kernel": os.uname().release,
    }


def run_worker(number):
    """This command again as one worker; once more where a signal ended it (a crash of TVM), but not without end. Returns whether work is left."""
    for _ in range(CRASHES):
        code = subprocess.Popen([sys.executable, *sys.argv, "--worker", str(number)]).wait()
        if code >= 0:
            return code != 0
        print(f"measure.py: worker {number} was ended by signal {-code}", flush=True)
    print(f"measure.py: worker {number} is not started again: that was {CRASHES} times", flush=True)
    return True


def run_workers(count):
    """Returns whether one of them has work left."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return any(list(pool.map(run_worker, range(count))))  # all of them are waited for


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--each", type=int, default=60, help="programs of a task (60)")
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stops after so long, at the end of a part of a task"
    )
    parser.add_argument(
        "--from",
        type=int,
        default=1,
        dest="begin",
        metavar="N",
        help="begins with the Nth task of the list and comes to "
        "those before it at the end: for tasks that other machines have not measured",
    )
    parser.add_argument("--first", type=int, default=10**9, help="only so many tasks of the list")
    parser.add_argument(
        "--longest-build",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="leaves out tasks whose programs so far took "
        "longer to build, in the mean: more programs of the others in the same time",
    )
    parser.add_argument(
        "--machine", default="", help="name of this machine in the records (by default made of its CPU)"
    )
    parser.add_argument("--target", default=host_target(installed_llvm()), help="TVM target (%(default)s)")
    parser.add_argument(
        "--core", type=int, default=max(os.sched_getaffinity(0)), help="core that programs run on (%(default)s)"
    )
    parser.add_argument(
        "--beside", action="store_true", help="other cores may work meanwhile; start what works there on these alone"
    )
    parser.add_argument(
        "--builders",
        type=int,
        default=0,
        metavar="N",
        help="builds N programs at a time on the other cores while this "
        "one measures; the others may be used for other work, too",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="N tasks at a time are searched and built on all cores; a "
        "program that is measured has real-time priority on its core (needs root or CAP_SYS_NICE)",
    )
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.workers < 0:
        parser.error(f"--workers {arguments.workers}: expected 1 or more")
    if arguments.workers:
        require_urgency(f"--workers {arguments.workers}")
        if arguments.worker < 0:
            sys.exit(run_workers(arguments.workers))
        arguments.beside, arguments.builders = True, arguments.builders or 1
    others = os.sched_getaffinity(0) - {arguments.core}
    if arguments.builders < 0 or (arguments.builders and not others):
        sys.exit(f"measure.py: --builders {arguments.builders}: expected 1 or more, and a core beside {arguments.core}")
    urgent = arguments.workers > 0
    if arguments.builders and not urgent:
        arguments.beside = True
        os.sched_setaffinity(0, others)  # searches and the models of searches as well
    folder = Folder(arguments.folder)
    check_target(arguments.target)
    facts = machine(arguments.machine, arguments.target, arguments.core)
    name = arguments.machine or "-".join(
        filter(None, (facts["cpu"].lower().replace("(r)", "").replace(" ", "-"), facts["family"], facts["model"]))
    )
    facts["machine"] = name
    known_facts = folder.path / "machine.json"
    if known_facts.exists() and json.loads(known_facts.read_text(encoding="utf-8"))["machine"] != name:
        sys.exit(f"measure.py: {known_facts} is of another machine, {name} here: give a folder of its own")
    known_facts.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    target = tvm.target.Target(f"{arguments.target} -model={name}")
    reference = Reference(folder, arguments.core, not arguments.beside, urgent, target)
    end = time.monotonic() + 60 * arguments.minutes
    done = collections.defaultdict(collections.Counter)
    lines, builds = collections.defaultdict(list), collections.defaultdict(list)
    for record, entry in zip(folder.records, folder.journal):
        done[entry["task"]][entry["part"]] += 1
        lines[entry["task"]].append(record)
        builds[entry["task"]].append(entry["build"] or BUILD_TIMEOUT)  # of one that failed it is not known
    slow = {task for task, seconds in builds.items() if statistics.fmean(seconds) > arguments.longest_build}
    share = arguments.each // len(PARTS)
    all_tasks = task_list.training_tasks()[: arguments.first]
    if not 1 <= arguments.begin <= len(all_tasks):
        sys.exit(f"measure.py: --from {arguments.begin}: expected 1 to {len(all_tasks)}, the number of tasks")
    numbered = list(enumerate(all_tasks))
    for number, task in numbered[arguments.begin - 1 :] + numbered[: arguments.begin - 1]:
        key = task_list.key(task)
        if key in folder.small or key in slow or all(done[key][part] >= share for part in PARTS):
            continue
        if urgent and number % arguments.workers != arguments.worker:
            continue
        begin, before = time.monotonic(), len(folder.records)
        try:
            search_task = make_task(task, target)
        except Exception as error:  # pylint: disable=broad-except
            sys.exit(f"measure.py: task {key}: {error}")
        folder.add_dag(search_task.workload_key, search_task.compute_dag)
        known = Measured(search_task, seed=number)
        for line in lines[key]:
            measured, result = auto_scheduler.measure_record.load_record_from_string(line)
            measured = auto_scheduler.measure.recover_measure_input(measured, rebuild_state=True)
            known.is_new(measured.state)
            known.note(measured, result)
        for part in PARTS:
            while done[key][part] < share:
                if time.monotonic() > end:
                    print("measure.py: the time is over; the same command goes on", flush=True)
                    return
                reference.measure()
                seed, missing = (
                    1000 * number + 10 * PARTS.index(part) + done[key][part] // ROUND,
                    share - done[key][part],
                )
                if part == "random":
                    states = random_states(known, missing, seed)
                elif part == "evolution":
                    states = evolved_states(known, missing, seed, best=False)
                else:
                    states = evolved_states(known, min(missing, ROUND), seed, best=True)

                def write(measured, result, facts, part=part):
                    folder.add(dump_record_to_string(measured, result).strip(), {"task": key, "part": part, **facts})
                    done[key][part] += 1

                measure_states(known, states, arguments.core, not arguments.beside, arguments.builders, urgent, write)
                if len(states) < min(missing, ROUND):  # the space has no more
                    break
        if any(done[key][part] < share for part in PARTS):
            folder.add_small(key)
        failures = collections.Counter(int(result.error_no) for result in known.results)
        best = min(map(cost_of, known.results), default=math.inf)
        print(
            f"[{number + 1}/{len(all_tasks)}] {key}: {len(folder.records) - before} programs in {time.monotonic() - begin:.0f} s, best "
            f"{1e3 * best:.3f} ms, failures {dict(failures - collections.Counter({0: failures[0]}))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
