#!/usr/bin/env python3
"""Makes pretrained/x86-cpu.foretime of the measured programs that the project ships, with one command.

  tools/tuner/pretrain.py [--foretime build/release/cli/foretime] [key=value ...]
  tools/tuner/pretrain.py --held-out workloads [key=value ...]   how well such a model orders programs of workloads that it has not seen
  tools/tuner/pretrain.py --held-out operators [key=value ...]   of kinds of operators that it has not seen

Packs samples/ansor and each folder of measured/ (records.jsonl.gz, dags.jsonl.gz, machine.yaml), trains configs/pretrained_x86_cpu.yaml,
exports the best checkpoint, and writes what the bundle says of some records of samples/ansor to x86-cpu.scores.json, which a test compares.
The same data, settings and program make the same bytes, wherever the checkout lies. With --held-out one member learns from five workloads
of six (equal computations are one), and the metrics of the others are printed; with `operators` a family of operators at a time is left out
of measured/, whose records name their tasks. Nothing is exported then. Overrides are those of `foretime train`. What lies between is in
runs/pretrained*. Needs no TVM.
"""
import argparse
import csv
import hashlib
import io
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from workloads import computations, lines_of, workload_of

# Paths are relative to the checkout, and the bundle's settings have them so.
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE, SCORES = pathlib.Path("pretrained/x86-cpu.foretime"), pathlib.Path("pretrained/x86-cpu.scores.json")
SETTINGS = "configs/pretrained_x86_cpu.yaml"
KEPT = 40  # records whose scores are kept, evenly over the file
# What tasks.kind says of a task, of each family that is left out; plain convolutions always train.
FAMILIES = {
    "convolutions in groups": ("conv2d grouped", "conv2d depthwise"),
    "convolutions of other forms": ("conv1d", "conv3d", "conv2d_transpose", "conv2d_winograd"),
    "blocked layouts and int8": ("conv2d_nchwc", "conv2d int8", "dense int8"),
    "matrix products": (
        "dense",
        "squeeze-and-excite dense",
        "classifier",
        "attention queries-keys",
        "attention values",
    ),
    "softmax and normalization": ("softmax", "layer_norm", "rms_norm", "group_norm", "batch_norm"),
    "pooling and resizing": ("pool2d", "pool3d", "global_pool", "adaptive_pool", "resize"),
    "cells, tables, reductions, elementwise": (
        "lstm_cell",
        "gru_cell",
        "embedding_bag",
        "reduction",
        "elementwise",
        "squeeze-and-excite gate",
        "transpose",
        "channel_shuffle",
    ),
}
HELD_OUT = 6  # of so many computations, in the order of their SHA-256, the first
METRICS = ("pairwise_accuracy", "kendall_tau", "top1_score", "top5_score", "mape")


class Work:
    """Packs and trains in a folder of its own, made anew."""

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.sources = [
            pathlib.Path("samples/ansor"),
            *sorted(path.parent for path in pathlib.Path("measured").glob("*/records.jsonl.gz")),
        ]
        self.machines = [source / "machine.yaml" for source in self.sources]
        self.dags = self.folder / "dags.jsonl.gz"
        # Members of gzip may follow each other.
        self.dags.write_bytes(b"".join((source / "dags.jsonl.gz").read_bytes() for source in self.sources))

    def foretime(self, *command):
        done = subprocess.run([self.program, *map(str, command)], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"pretrain.py: foretime {' '.join(map(str, command))} ended with {done.returncode}")
        return done.stdout

    def pack(self, name, records):
        print(
            self.foretime(
                "data",
                "pack-records",
                "-o",
                self.folder / name,
                *records,
                "--dags",
                self.dags,
                "--targets",
                *self.machines,
            ),
            end="",
        )

    def train(self, *overrides):
        """The run directory."""
        run, targets = self.folder / "run", ", ".join(os.path.relpath(path, self.folder) for path in self.machines)
        self.foretime(
            "train",
            "--quiet",
            SETTINGS,
            f"data.root={self.folder}",
            f"run.directory={run}",
            f"data.targets=[{targets}]",
            *overrides,
        )
        return run


def make_bundle(work, overrides):
    work.pack("records.foretime", [source / "records.jsonl.gz" for source in work.sources])
    run = work.train(*overrides)
    work.foretime("export", run, BUNDLE, "--licence", "Apache-2.0")
    samples = work.sources[0]
    rows = csv.DictReader(
        io.StringIO(work.foretime("rank", BUNDLE, samples / "records.jsonl.gz", "--dags", samples / "dags.jsonl.gz"))
    )
    scores = {row["id"]: float(row["score"]) for row in rows}
    chosen = sorted(scores, key=int)[:: max(1, len(scores) // KEPT)]
    SCORES.write_text(json.dumps({name: scores[name] for name in chosen}, indent=1) + "\n", encoding="utf-8")
    print(f"{BUNDLE}: {BUNDLE.stat().st_size / 1e6:.2f} MB")


def metrics_without(work, lines, held_out, name, overrides):
    """Of a model of one member that learns from the lines whose place is not in held_out: {metric: value} of the others, and of programs
    that were held out of the workloads that it has seen."""
    for part, wanted in ("learned", False), ("held_out", True):
        records = work.folder / f"{part}.jsonl"
        records.write_text(
            "".join(line for place, line in enumerate(lines) if (place in held_out) == wanted), encoding="utf-8"
        )
        work.pack(f"{part}.foretime", [records])
    shutil.rmtree(work.folder / "run", ignore_errors=True)
    run = work.train(
        "data.train=[learned.foretime]", "data.test=[held_out.foretime]", "model.ensemble_size=1", *overrides
    )
    final = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    found = {kind: {metric: final[f"{kind}/{metric}"] for metric in METRICS} for kind in ("holdout", "test")}
    print(f"{name}: {len(held_out)} of {len(lines)} programs held out: {shown(found['test'])}", flush=True)
    return found


def shown(metrics):
    return ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())


def measure_workloads(work, overrides):
    lines = [line for source in work.sources for line in lines_of(source / "records.jsonl.gz")]
    computed = computations(work.dags)
    computed = [computed[workload_of(line)] for line in lines]
    chosen = set(sorted(set(computed), key=hashed)[::HELD_OUT])
    found = metrics_without(
        work,
        lines,
        {place for place, key in enumerate(computed) if key in chosen},
        "a sixth of the workloads",
        overrides,
    )
    print(f"programs held out of the others: {shown(found['holdout'])}")


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()


def measure_operators(work, overrides):
    sys.path.insert(0, "tools/tuner/measure")
    from tasks import kind

    sources = [source for source in work.sources if (source / "journal.jsonl.gz").exists()]
    lines, kinds = [], []
    for source in sources:
        records, journal = (lines_of(source / f"{name}.jsonl.gz") for name in ("records", "journal"))
        if len(records) != len(journal):
            sys.exit(
                f"pretrain.py: {source}: {len(records)} records and {len(journal)} lines of the journal, expected as many"
            )
        lines += records
        for operator, arguments in (json.loads(json.loads(line)["task"]) for line in journal):
            kinds.append(kind({"operator": operator, "arguments": arguments}))
    unknown = set(kinds) - {"conv2d 1x1", "conv2d kxk"} - {name for family in FAMILIES.values() for name in family}
    if unknown:
        sys.exit(f"pretrain.py: kinds of operators of no family: {sorted(unknown)}")
    results = [
        metrics_without(work, lines, {place for place, found in enumerate(kinds) if found in family}, name, overrides)[
            "test"
        ]
        for name, family in FAMILIES.items()
    ]
    print(
        f"mean of {len(results)} families: {shown({m: statistics.fmean(result[m] for result in results) for m in METRICS})}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--foretime", default=str(ROOT / "build/release/cli/foretime"), type=os.path.abspath)
    parser.add_argument(
        "--held-out",
        choices=("workloads", "operators"),
        help="what is held out of the training; prints how its programs are ordered",
    )
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    begin = time.monotonic()
    if arguments.held_out:
        measure = measure_workloads if arguments.held_out == "workloads" else measure_operators
        measure(Work(arguments.foretime, f"runs/pretrained_{arguments.held_out}_held_out"), arguments.overrides)
    else:
        make_bundle(Work(arguments.foretime, "runs/pretrained"), arguments.overrides)
    print(f"pretrain.py: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
