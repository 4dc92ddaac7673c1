#!/usr/bin/env python3
"""Whether fine-tuning on few records of an unseen workload orders its other records better, and what that costs elsewhere.

  bench/studies/finetuning.py [--foretime build/release/cli/foretime] [--counts 16,32,64] [--seed 1] [--work FOLDER]

All on samples/ansor. A model of loop programs learns from the tasks of single operators and of MobileNet v3; some records of each
are kept back. For every task of ResNet-18 and of Inception v3 it is then tuned on so many records, drawn at random, and ranks
the task's other records, at least 27; the records that were kept back tell what it has forgotten. `together`: 30 records of each
of these tasks at once. Printed are means over tasks of Kendall's tau-b, before and after; of how many tasks the order became
better; how often the command itself would take the tuned weights, by the fifth that it holds out, at several --tolerance, and
tau where it decides by the default. The seed is that of the records that are drawn.
A work folder that has a bundle already is used again.
"""
import sys
import collections
import csv
import gzip
import io
import itertools
import json
import math
import pathlib
import random
import statistics
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import common  # noqa: E402

KNOWN = [*range(18), *range(32, 39)]
UNSEEN = [*range(21, 29), 31, *range(42, 50)]  # tasks 29 and 30 have too few records
KEPT_BACK = 15
SETTINGS = """
data: {format: programs, representation: loops, root: ., train: [old.foretime], holdout: 0.1, max_eval_candidates: 0}
model: {type: statement_cost, hidden: 128, activation: relu, head_layers: 3, ensemble_size: 3, statement_cost: {inputs: [loops, block], loop_hidden: 64, clip: 2, context: true}}
loss: {type: pairwise_logistic, huber_weight: 0.3, delta: 0.3, target: log_runtime}
optimizer: {type: adamw, learning_rate: 1.0e-3, weight_decay: 1.0e-2, schedule: cosine, warmup_steps: 110}
sampler: {groups_per_batch: 8, candidates_per_group: 32}
trainer: {steps: 2200, threads: 1, device: cpu, metric: holdout/kendall_tau}
run: {directory: run}
"""


def records():
    """{task: its records that did not fail}"""
    with (common.SOURCE / "samples/ansor/tasks.jsonl").open() as file:
        tasks = {task["workload_key"]: task["task"] for task in map(json.loads, file)}
    found = collections.defaultdict(list)
    with gzip.open(common.SOURCE / "samples/ansor/records.jsonl.gz", "rt") as file:
        for line in file:
            record = json.loads(line)
            if record["r"][1] == 0:
                found[tasks[record["i"][0][0]]].append(line)
    return found


def tau_b(pairs):
    concordant = ties_a = ties_b = total = 0
    for (a, b), (c, d) in itertools.combinations(pairs, 2):
        total += 1
        ties_a += a == c
        ties_b += b == d
        concordant += ((a > c) - (a < c)) * ((b > d) - (b < d))
    return concordant / math.sqrt((total - ties_a) * (total - ties_b))


class Bench:
    def __init__(self, arguments, folder):
        self.program, self.folder = arguments.foretime, folder
        self.dags = folder / "dags.jsonl"
        self.dags.write_bytes(gzip.open(common.SOURCE / "samples/ansor/dags.jsonl.gz").read())

    def run(self, *words):
        return common.run([self.program, *words], cwd=self.folder)

    def train(self, old):
        if (self.folder / "model.foretime").exists():
            return
        (self.folder / "old.json").write_text("".join(old))
        (self.folder / "settings.yaml").write_text(SETTINGS)
        self.run("data", "pack-records", "-o", "old.foretime", "old.json", "--dags", self.dags)
        self.run("train", "--quiet", "settings.yaml")
        self.run("export", "run", "model.foretime")

    def order(self, bundle, lines):
        """The mean over workloads of tau."""
        (self.folder / "ranked.json").write_text("".join(lines))
        costs = [statistics.fmean(json.loads(line)["r"][0]) for line in lines]
        pairs = collections.defaultdict(list)
        for row in csv.DictReader(io.StringIO(self.run("rank", bundle, "ranked.json", "--dags", self.dags))):
            pairs[row["group"]].append((float(row["score"]), costs[int(row["id"])]))
        return statistics.fmean(tau_b(of) for of in pairs.values())

    def tune(self, lines, *options):
        (self.folder / "new.json").write_text("".join(lines))
        return json.loads(
            self.run(
                "finetune",
                "model.foretime",
                "new.json",
                "--dags",
                self.dags,
                "-o",
                "tuned.foretime",
                "--take-worse",
                "--json",
                "--threads",
                "1",
                *options,
            )
        )


TOLERANCES = (0.0, 0.25, 0.5, 0.75, 1.0)


def row(name, results):
    before, after, old_before, old_after, margins, seconds = zip(*results)
    better = sum(a > b for b, a in zip(before, after))
    mean = statistics.fmean
    taken = [[margin >= -tolerance for margin in margins] for tolerance in TOLERANCES]
    decided = [mean(a if t else b for b, a, t in zip(before, after, of)) for of in taken]
    print(
        f"{name:22} {mean(before):7.3f} {mean(after):7.3f} {better:4} of {len(results):<3} {mean(old_before):7.3f} {mean(old_after):7.3f} "
        f"{'/'.join(str(sum(of)) for of in taken):>14} {'/'.join(f'{tau:.3f}'.lstrip('0') for tau in decided):>24} "
        f"{mean(seconds):7.1f}",
        flush=True,
    )


def main():
    parser = common.options_of(__doc__)
    parser.add_argument("--foretime", default=common.SOURCE / "build/release/cli/foretime", type=pathlib.Path)
    parser.add_argument("--counts", default="16,32,64", help="records of a task to tune on")
    parser.add_argument("--seed", type=int, default=1, help="of the records that are drawn (1)")
    parser.add_argument("--work", type=pathlib.Path, help="folder to work in, kept; else a temporary one")
    arguments = parser.parse_args()
    arguments.foretime = arguments.foretime.resolve()
    counts = [int(count) for count in arguments.counts.split(",")]
    if max(counts) > 64:
        parser.error("--counts: at most 64: the records after these are ranked")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.work or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        of, draw = records(), random.Random(arguments.seed)
        for lines in of.values():
            draw.shuffle(lines)
        bench = Bench(arguments, folder.resolve())
        bench.train([line for task in KNOWN for line in of[task][KEPT_BACK:]])
        kept = [line for task in KNOWN for line in of[task][:KEPT_BACK] if len(of[task]) > KEPT_BACK]
        old_before = bench.order("model.foretime", kept)
        untouched = {task: bench.order("model.foretime", of[task][64:]) for task in UNSEEN}

        def result(note, tasks):
            """One row's part: of the tasks that were tuned on together."""
            change = note["change"]
            # By how many standard errors the held-out order changed; without one nothing is taken.
            margin = (
                math.inf if change["kendall_tau"] >= 0 else change["kendall_tau"] / (change["standard_error"] or 1e-9)
            )
            margin = margin if "holdout/kendall_tau" in note["before"] else -math.inf
            old_after = bench.order("tuned.foretime", kept)
            return [
                (
                    untouched[task],
                    bench.order("tuned.foretime", of[task][64:]),
                    old_before,
                    old_after,
                    margin,
                    note["seconds"],
                )
                for task in tasks
            ]

        print(
            f"{'tuned on':22} {'before':>7} {'after':>7} {'better':>11} {'old':>7} {'after':>7} "
            f"{'taken at ' + '/'.join(map(str, TOLERANCES)):>14} {'decided':>24} {'seconds':>7}"
        )
        for options, label in (((), ""), (("--replay", "old.foretime"), ", replay")):
            for count in counts:
                results = []
                for task in UNSEEN:
                    results += result(bench.tune(of[task][:count], *options), [task])
                row(f"{count} records{label}", results)
            note = bench.tune([line for task in UNSEEN for line in of[task][:30]], *options)
            row(f"together{label}", result(note, UNSEEN))


if __name__ == "__main__":
    main()
