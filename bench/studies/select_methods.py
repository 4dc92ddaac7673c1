#!/usr/bin/env python3
"""Whether records that foretime select chooses teach a model more than as many that are drawn at random.

  bench/studies/select_methods.py [--foretime build/release/cli/foretime] [--seeds 4] [--first 6] [--number 12] [--steps 300] [--work FOLDER]

All on samples/ansor, whose records are all measured. For each seed a third of the tasks is held out. Of each other task --first
records, drawn at random, are measured, and an ensemble of three small models learns from them. By that model each method chooses
--number records more a task of all that are left; a model that learns from both is held against the held-out tasks' records.
Printed are means over seeds and held-out tasks of Kendall's tau-b and of the part of pairs that are in order, and the difference to
random with its standard error over seeds. `all` learns from all records of the tasks: what choosing could gain at most.
A work folder that has results already goes on with what is missing.
"""
import sys
import collections
import csv
import gzip
import io
import json
import math
import pathlib
import random
import statistics
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import common  # noqa: E402
from finetuning import tau_b

METHODS = ("random", "representative", "diverse", "uncertain", "mixed")
SETTINGS = """
data: {format: programs, representation: loops, root: ., train: [packed.foretime], holdout: 0, max_eval_candidates: 0}
model: {type: statement_cost, hidden: 64, activation: relu, head_layers: 3, ensemble_size: 3, statement_cost: {inputs: [loops, block], loop_hidden: 32, clip: 2, context: true}}
loss: {type: pairwise_logistic, huber_weight: 0.3, delta: 0.3, target: log_runtime}
optimizer: {type: adamw, learning_rate: 1.0e-3, weight_decay: 1.0e-2, schedule: cosine, warmup_steps: 50}
sampler: {groups_per_batch: 8, candidates_per_group: 16}
trainer: {threads: 1, device: cpu, eval_every: 0}
checkpoint: {every_steps: 0}
"""


def tasks():
    """[[lines of a task's records that did not fail]], tasks of at least 40."""
    found = collections.defaultdict(list)
    with gzip.open(common.SOURCE / "samples/ansor/records.jsonl.gz", "rt") as file:
        for line in file:
            record = json.loads(line)
            if record["r"][1] == 0:
                found[record["i"][0][0]].append(line)
    return [lines for _, lines in sorted(found.items()) if len(lines) >= 40]


def pairs_in_order(pairs):
    """Of (score, cost): the part of pairs of different costs whose scores stand in the same order."""
    right = total = 0
    for i, (score, cost) in enumerate(pairs):
        for other_score, other_cost in pairs[:i]:
            if cost != other_cost:
                total += 1
                right += (score > other_score) == (cost > other_cost) and score != other_score
    return right / total


class Bench:
    def __init__(self, arguments, folder):
        self.program, self.folder, self.arguments = arguments.foretime, folder, arguments
        (folder / "dags.jsonl").write_bytes(gzip.open(common.SOURCE / "samples/ansor/dags.jsonl.gz").read())
        (folder / "settings.yaml").write_text(SETTINGS)

    def run(self, *words):
        return common.run([self.program, *words], cwd=self.folder)

    def write(self, name, lines):
        (self.folder / name).write_text("".join(lines))

    def train(self, lines, seed, name):
        """The bundle of a model that has learned from these records."""
        self.write("train.json", lines)
        self.run("data", "pack-records", "-o", "packed.foretime", "train.json", "--dags", "dags.jsonl")
        self.run("train", "--quiet", "settings.yaml", f"run.directory={name}", f"trainer.seed={seed}", f"trainer.steps={self.arguments.steps}")
        self.run("export", name, f"{name}.foretime")
        return f"{name}.foretime"

    def quality(self, bundle, lines):
        """(tau, pairs in order), means over tasks."""
        self.write("held-out.json", lines)
        costs = [statistics.fmean(json.loads(line)["r"][0]) for line in lines]
        of_task = collections.defaultdict(list)
        for row in csv.DictReader(io.StringIO(self.run("rank", bundle, "held-out.json", "--dags", "dags.jsonl", "--threads", "1"))):
            of_task[row["group"]].append((float(row["score"]), costs[int(row["id"])]))
        return [statistics.fmean(of(pairs) for pairs in of_task.values()) for of in (tau_b, pairs_in_order)]

    def seed(self, number):
        """{name: (tau, pairs in order)} of one seed."""
        draw = random.Random(number)
        shuffled = tasks()
        draw.shuffle(shuffled)
        third = len(shuffled) // 3
        held_out = [line for lines in shuffled[:third] for line in lines]
        known = shuffled[third:]
        measured = [line for lines in known for line in draw.sample(lines, self.arguments.first)]
        self.write("pool.json", [line for lines in known for line in lines])
        self.write("measured.json", measured)
        results = {}
        first = self.train(measured, number, f"first-{number}")
        results["first"] = self.quality(first, held_out)
        results["all"] = self.quality(self.train([line for lines in known for line in lines], number, f"all-{number}"), held_out)
        for method in METHODS:
            self.run("select", first, "pool.json", "--dags", "dags.jsonl", "--measured", "measured.json", "--method", method, "--number",
                     str(self.arguments.number * len(known)), "--seed", str(number), "--threads", "1", "-o", "chosen.json")
            chosen = (self.folder / "chosen.json").read_text().splitlines(keepends=True)
            results[method] = self.quality(self.train(measured + chosen, number, f"{method}-{number}"), held_out)
            print(f"seed {number}, {method}: tau {results[method][0]:.3f}", flush=True)
        return results


def table(results):
    print(f"{'records':16} {'tau':>6} {'to random':>16} {'pairs':>7} {'to random':>16}")
    for name in ("first", *METHODS, "all"):
        cells = []
        for metric in range(2):
            values = [of_seed[name][metric] for of_seed in results]
            differences = [of_seed[name][metric] - of_seed["random"][metric] for of_seed in results]
            error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
            cells.append(f"{statistics.fmean(values):.3f} {statistics.fmean(differences):+8.3f} ± {error:.3f}")
        print(f"{name:16} {'   '.join(cells)}", flush=True)


def main():
    parser = common.options_of(__doc__)
    parser.add_argument("--foretime", default=common.SOURCE / "build/release/cli/foretime", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=6, help="records of a task that are measured to begin with")
    parser.add_argument("--number", type=int, default=12, help="records of a task that are chosen")
    parser.add_argument("--steps", type=int, default=300, help="of each training")
    parser.add_argument("--work", type=pathlib.Path, help="folder to work in, kept; else a temporary one")
    arguments = parser.parse_args()
    arguments.foretime = arguments.foretime.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.work or pathlib.Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        bench, results = Bench(arguments, folder), []
        for seed in range(1, arguments.seeds + 1):
            done = folder / f"seed-{seed}-{arguments.first}-{arguments.number}-{arguments.steps}.json"
            if not done.exists():
                done.write_text(json.dumps(bench.seed(seed)))
            results.append(json.loads(done.read_text()))
            table(results)


if __name__ == "__main__":
    main()
