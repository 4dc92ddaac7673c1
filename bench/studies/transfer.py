#!/usr/bin/env python3
"""How many records of a new machine a model of other machines needs, in both directions between ours and TenSet's.

  bench/studies/transfer.py --tenset FOLDER [--draws 3] [--only ours,tenset] [--work FOLDER] [--out transfer.json]

For users who have a model of other machines and may measure some programs on a new one: is it better to use the model
as it is, to fine-tune it, to train it with the old records beside the new ones, or to train from nothing?

  ours → TenSet's   The parent learns from samples/ansor and measured/ (AMD EPYC, one thread). The new machine is
                    TenSet's (24 cores, SSE2): at most 100 records of each of 201 workloads of seven networks to learn
                    from, 121 workloads of three others to rank, as in XGBoost's published figures (xgb_baseline.json).
  TenSet's → ours   The parent learns from those 201 workloads. The new machine is that of measured/amd-epyc-2: every
                    third workload, in the order of their keys, is ranked, and the others are there to learn from.

No workload that is ranked is learned from, by the parent or later: workloads are compared by what their stages compute,
and the parent's records of workloads that are ranked are left out. The records of a draw are dealt in rounds: workloads
in random order, ten random records of each, then ten more of each, until there are enough; a draw of 100 is part of
that of 1,000. For each number of records are measured:

  finetune   `foretime finetune` as it is, with --targets where the machine has a file; *more*: with four times the steps
             at the rate of the training
  joint      one training on the parent's records and 1,000 (the first draw) or all of the new ones, with data.targets
  nothing    the parent's settings, trained on the new records alone
  XGBoost    TVM's XGBModel on the same records (`xgboost_bench statements --preset tvm`), and the tuned one
             (`--preset pairs`)

Every model is one member. All of them rank the same programs, those that did not fail, and the metrics are computed
here from `foretime rank`: means over workloads, and over programs for the absolute percentage error of run times.
`foretime evaluate` must agree on the parent's. FORETIME names the program. With --work the results of steps that are
done are kept, and the next call goes on. All of it takes 25 minutes of one quiet core. Without TenSet's
records it says so and ends with 77.
"""
import collections
import csv
import gzip
import io
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import common  # noqa: E402

sys.path.insert(0, str(common.SOURCE / "tools" / "tuner"))
from workloads import by_workload, computation, lines_of  # noqa: E402

METHODS = ("zero-shot", "finetune", "finetune more", "joint", "nothing", "XGBoost tvm", "XGBoost pairs")
METRICS = ("pairwise_accuracy", "kendall_tau", "top1", "top5", "mape")
PROGRAM_METRICS = {
    "pairwise_accuracy": "pairwise_accuracy",
    "kendall_tau": "kendall_tau",
    "top1": "top1_score",
    "top5": "top5_score",
}
KEPT_PARENT = 6  # exit code of finetune: new records that it held out were ordered worse
COUNTS, ROUND = (100, 1000), 10
HELD_OUT = 3  # of so many workloads of the new machine of ours, the first
SETTINGS = common.SOURCE / "configs/pretrained_x86_cpu.yaml"
PARENT_STEPS = {"tenset": 6000, "ours": 2000}
JOINT_STEPS = 6000
MORE = ("--steps", 240, "--learning-rate", 1e-3)  # of finetune
# Of a training from nothing on at most so many records: about the best of 30 to 6,000 for what is ranked.
STEPS = ((100, 120), (2000, 200), (10**9, 2000))
OURS = ("samples/ansor", "measured/amd-epyc-1", "measured/amd-epyc-2")  # the last is the new one


def seconds(line):
    """The measured run time; None where the program failed."""
    (costs, error, *_) = json.loads(line)["r"]
    return None if error else statistics.fmean(costs)


def draw(pool, count, seed):
    """So many lines of {workload: lines}, in rounds of ten of each workload; all of them for None."""
    if count is None:
        return [line for lines in pool.values() for line in lines]
    rng = random.Random(seed)
    workloads = list(pool)
    rng.shuffle(workloads)
    shuffled = {workload: rng.sample(pool[workload], len(pool[workload])) for workload in workloads}
    dealt = []
    for first in itertools.count(0, ROUND):
        for workload in workloads:
            dealt += shuffled[workload][first : first + ROUND]
            if len(dealt) >= count:
                return dealt[:count]


def metrics_of(rows):
    """Of {workload: [(score, predicted seconds, measured seconds)]}."""
    found = collections.defaultdict(list)
    errors = []
    for ranked in rows.values():
        right = pairs = ties_score = ties_time = balance = 0
        for (a, _, x), (b, _, y) in itertools.combinations(ranked, 2):
            by_score, by_time = (a > b) - (a < b), (x > y) - (x < y)
            balance += by_score * by_time
            ties_score += by_score == 0
            ties_time += by_time == 0
            pairs += by_time != 0
            right += by_score * by_time == 1 or 0.5 * (by_score == 0 and by_time != 0)
        total = pairs + ties_time
        found["pairwise_accuracy"].append(right / pairs)
        found["kendall_tau"].append(balance / max(1e-9, ((total - ties_score) * (total - ties_time)) ** 0.5))
        order = [time for _, _, time in sorted(ranked, key=lambda row: row[0])]
        for name, first in ("top1", 1), ("top5", 5):
            found[name].append(min(order) / min(order[:first]))
        errors += [abs(predicted / time - 1) for _, predicted, time in ranked]
    found["mape"] = errors
    return {name: statistics.fmean(values) for name, values in found.items()}


class Direction:
    """From some machines to another: what the parent learns from, what is there of the new one, and what is ranked."""

    def __init__(self, bench, name, parent, parent_machines, pool, machines, ranked):
        self.bench, self.name, self.parent_machines, self.machines = bench, name, parent_machines, machines
        self.folder = bench.folder / name
        (self.folder / "bundles").mkdir(parents=True, exist_ok=True)
        self.ranked = [line for line in ranked if seconds(line) is not None]
        self.ranked = [line for lines in by_workload(self.ranked).values() if len(lines) > 1 for line in lines]
        known = {bench.computations[workload] for workload in by_workload(self.ranked)}

        def apart(records):
            found = by_workload(records)
            return {key: lines for key, lines in found.items() if bench.computations[key] not in known}

        dropped = len(by_workload(parent)) - len(apart(parent))
        self.parent, self.pool = draw(apart(parent), None, 0), apart(pool)
        if len(by_workload(pool)) != len(self.pool):
            raise SystemExit(f"{name}: workloads of the new machine are both learned from and ranked")
        self.about = {
            "parent_records": len(self.parent),
            "parent_workloads": len(apart(parent)),
            "parent_workloads_left_out": dropped,
            "new_records": sum(map(len, self.pool.values())),
            "new_workloads": len(self.pool),
            "ranked_programs": len(self.ranked),
            "ranked_workloads": len(by_workload(self.ranked)),
        }
        print(f"{name}: {self.about}", file=sys.stderr, flush=True)
        (self.folder / "ranked.jsonl").write_text("".join(self.ranked), encoding="utf-8")
        self.pack("parent", self.parent, parent_machines)
        self.pack("ranked", self.ranked, machines)

    def run(self, *words, accepted=(0,)):
        process = common.start([self.bench.program, *words], {"OMP_NUM_THREADS": "1"}, cwd=self.folder)
        return common.finish(process, accepted)

    def write(self, name, lines):
        (self.folder / name).write_text("".join(lines), encoding="utf-8")

    def pack(self, name, lines, machines):
        self.write(f"{name}.jsonl", lines)
        self.run(
            "data",
            "pack-records",
            "-o",
            f"{name}.foretime",
            f"{name}.jsonl",
            "--dags",
            self.bench.dags,
            "--threads",
            1,
            *(["--targets", *machines] if machines else []),
        )

    def train(self, name, files, machines, steps, seed):
        self.run(
            "train",
            "--quiet",
            SETTINGS,
            "data.root=.",
            f"data.train=[{', '.join(files)}]",
            f"data.targets=[{', '.join(map(str, machines))}]",
            f"run.directory=runs/{name}",
            "model.ensemble_size=1",
            f"trainer.steps={steps}",
            f"trainer.seed={seed}",
            "data.holdout=0",
            "trainer.metric=valid/kendall_tau",  # the default: nothing is held out, and no set is asked for
            f"optimizer.warmup_steps={min(110, steps // 10)}",
        )
        self.run("export", f"runs/{name}", f"bundles/{name}.foretime")
        return f"bundles/{name}.foretime"

    def joint(self, name, lines):
        machines = list(dict.fromkeys([*self.parent_machines, *self.machines]))
        self.pack("joint", [*self.parent, *lines], machines)  # together, so that workloads of both become two groups
        return self.train(f"joint-{name}", ["joint.foretime"], machines, JOINT_STEPS, 1)

    def measure(self, bundle):
        rows, times = collections.defaultdict(list), [seconds(line) for line in self.ranked]
        for row in csv.DictReader(io.StringIO(self.run("rank", bundle, "ranked.foretime", "--threads", "1"))):
            rows[row["group"]].append((float(row["score"]), float(row["predicted_runtime"]), times[int(row["id"])]))
        if sum(map(len, rows.values())) != len(self.ranked):
            raise SystemExit(f"{bundle}: not all programs were ranked")
        return metrics_of(rows)

    def check(self, measured):
        """The metrics of the parent as the program itself computes them."""
        groups = json.loads(self.run("evaluate", "runs/parent", "ranked.foretime", "--json"))["groups"]
        for name, key in PROGRAM_METRICS.items():
            value = statistics.fmean(group["metrics"][key] for group in groups)
            # Kernels and LibTorch round differently: programs of nearly equal scores may change places.
            if abs(value - measured[name]) > (1e-2 if name.startswith("top") else 1e-3):
                raise SystemExit(f"{self.name}: {name} {measured[name]:.4f}, but foretime evaluate says {value:.4f}")

    def xgboost(self, lines, preset):
        split = {"train_lines": collections.defaultdict(list), "eval_lines": collections.defaultdict(list)}
        for number, line in enumerate([*lines, *self.ranked]):
            split["train_lines" if number < len(lines) else "eval_lines"][json.loads(line)["i"][0][0]].append(number)
        self.write("xgboost.jsonl", [*lines, *self.ranked])
        self.write("split.json", [json.dumps(split)])
        program = pathlib.Path(self.bench.program).resolve().parents[1] / "bench/xgboost_bench"
        said = common.finish(
            common.start(
                [
                    program,
                    "statements",
                    "--records",
                    "xgboost.jsonl",
                    "--dags",
                    self.bench.dags,
                    "--split",
                    "split.json",
                    "--preset",
                    preset,
                    "--json",
                ],
                {"OMP_NUM_THREADS": "1"},
                cwd=self.folder,
            )
        )
        said = json.loads(said)["mean_score"]
        return {name: said[key] for name, key in PROGRAM_METRICS.items()}

    def row(self, method, count, seed, make):
        self.bench.row(self.name, method, count, seed, make)

    def all_rows(self, draws):
        every = sum(map(len, self.pool.values()))
        self.row(
            "zero-shot",
            0,
            1,
            lambda: self.measure(
                self.train("parent", ["parent.foretime"], self.parent_machines, PARENT_STEPS[self.name], 1)
            ),
        )
        self.check(self.bench.rows[self.name, "zero-shot", 0, 1])
        for count in (*COUNTS, every):
            for seed in range(1, (draws if count != every else 1) + 1):
                lines = draw(self.pool, None if count == every else count, seed)
                self.rows_of(count, seed, lines, next(steps for most, steps in STEPS if count <= most))

    def rows_of(self, count, seed, lines, steps):
        name = f"{count}-{seed}"
        self.pack(name, lines, self.machines)

        def finetune(*more):
            machines = ["--targets", *self.machines] if self.machines else []
            files = (
                "bundles/parent.foretime",
                f"{name}.jsonl",
                "--dags",
                self.bench.dags,
                "-o",
                "bundles/tuned.foretime",
            )
            note = self.run("finetune", *files, *machines, *more, "--threads", 1, "--json", accepted=(0, KEPT_PARENT))
            return self.measure("bundles/tuned.foretime") | {"kept_parent": json.loads(note)["weights"] == "parent"}

        self.row("finetune", count, seed, finetune)
        self.row("finetune more", count, seed, lambda: finetune(*MORE))
        if count > COUNTS[0] and seed == 1:
            self.row("joint", count, seed, lambda: self.measure(self.joint(name, lines)))
        self.row(
            "nothing",
            count,
            seed,
            lambda: self.measure(self.train(f"nothing-{name}", [f"{name}.foretime"], self.machines, steps, seed)),
        )
        for preset in ("tvm", "pairs"):
            self.row(f"XGBoost {preset}", count, seed, lambda: self.xgboost(lines, preset))
        (self.folder / f"{name}.foretime").unlink()


class Bench:
    """Results of steps by direction, method, number of records and draw, kept in a file."""

    def __init__(self, program, folder, tenset):
        self.program, self.folder, self.kept = program, folder, folder / "rows.jsonl"
        self.rows = {}
        if self.kept.exists():
            for line in self.kept.read_text(encoding="utf-8").splitlines():
                *key, metrics = json.loads(line)
                self.rows[tuple(key)] = metrics
        self.dags = folder / "dags.jsonl.gz"
        sources = [*(common.SOURCE / name for name in OURS), tenset]
        lines = [line for source in reversed(sources) for line in lines_of(source / "dags.jsonl.gz")]
        found = {json.loads(line)["workload_key"]: line for line in lines}
        self.dags.write_bytes(gzip.compress("".join(found.values()).encode(), mtime=0))
        self.computations = {workload: computation(json.loads(line)) for workload, line in found.items()}
        self.tenset = tenset

    def row(self, *key_and_make):
        *key, make = key_and_make
        if tuple(key) in self.rows:
            return
        begin = time.monotonic()
        metrics = make()
        self.rows[tuple(key)] = metrics | {"seconds": round(time.monotonic() - begin, 1)}
        with self.kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps([*key, self.rows[tuple(key)]]) + "\n")
        shown = {name: round(value, 3) for name, value in self.rows[tuple(key)].items()}
        print(*key, shown, file=sys.stderr, flush=True)

    def directions(self, only):
        ours = [lines_of(common.SOURCE / name / "records.jsonl.gz") for name in OURS]
        machines = [common.SOURCE / name / "machine.yaml" for name in OURS]
        chosen = json.loads((self.tenset / "xgb_baseline.json").read_text(encoding="utf-8"))

        def lines_in(part):
            return lines_of(self.tenset / "records.jsonl.gz", {number for of in chosen[part].values() for number in of})

        train, evaluated = lines_in("train_lines"), lines_in("eval_lines")
        measured = by_workload(ours[-1])
        ranked = set(list(measured)[::HELD_OUT])
        if "tenset" in only:
            yield Direction(self, "tenset", list(itertools.chain.from_iterable(ours)), machines, train, [], evaluated)
        if "ours" in only:
            others = [line for key in measured if key not in ranked for line in measured[key]]
            ranked_lines = [line for key in sorted(ranked) for line in measured[key]]
            yield Direction(self, "ours", train, [], others, machines[-1:], ranked_lines)


def cell(values):
    if not values:
        return "–"
    mean = f"{statistics.fmean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.3f}"


def table(name, rows):
    lines = [f"| to {name}: method | records | {' | '.join(METRICS)} |", "|---" * (2 + len(METRICS)) + "|"]
    groups = collections.defaultdict(list)
    for (direction, method, count, _), metrics in rows.items():
        if direction == name:
            groups[count, method].append(metrics)
    for (count, method), found in sorted(groups.items(), key=lambda item: (item[0][0], METHODS.index(item[0][1]))):
        cells = [cell([metrics[metric] for metrics in found if metric in metrics]) for metric in METRICS]
        lines.append(f"| {method} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = common.options_of(__doc__, draws=3)
    parser.add_argument(
        "--tenset",
        type=pathlib.Path,
        required=True,
        help="folder of TenSet's records, with dags.jsonl.gz and xgb_baseline.json",
    )
    parser.add_argument("--only", default="tenset,ours", help="to which machine (tenset,ours)")
    parser.add_argument("--work", type=pathlib.Path, help="folder to work in, kept; else a temporary one")
    parser.add_argument("--out", type=pathlib.Path, default="transfer.json", help="where all rows go (transfer.json)")
    arguments = parser.parse_args()
    if not (arguments.tenset / "records.jsonl.gz").exists():
        print(f"transfer.py: skipped: {arguments.tenset}: no records.jsonl.gz")
        sys.exit(77)
    program = os.path.abspath(os.environ.get("FORETIME", common.SOURCE / "build/release/cli/foretime"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.work or pathlib.Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(program, folder, arguments.tenset.resolve())
        about = {}
        for direction in bench.directions(arguments.only.split(",")):
            direction.all_rows(arguments.draws)
            about[direction.name] = direction.about
            print(table(direction.name, bench.rows), flush=True)
        names = ("direction", "method", "records", "draw")
        rows = [dict(zip(names, key)) | metrics for key, metrics in bench.rows.items()]
        arguments.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
