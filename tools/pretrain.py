#!/usr/bin/env python3
"""Makes pretrained/x86-cpu.foretime of the measured programs that the project ships, with one command.

  tools/pretrain.py [--foretime build/release/cli/foretime] [key=value ...]
  tools/pretrain.py --held-out      how well such a model orders programs of workloads that it has not seen

Packs samples/ansor and each folder of measured/ (records.jsonl.gz, dags.jsonl.gz, machine.yaml), trains configs/pretrained_x86_cpu.yaml,
exports the best checkpoint, and writes what the bundle says of some records of samples/ansor to x86-cpu.scores.json, which a test compares.
The same data, settings and program make the same bytes, wherever the checkout lies. With --held-out one member learns from five workloads
of six, and the metrics of the others are printed; nothing is exported. Overrides are those of `foretime train`. What lies between is in
runs/pretrained*. Needs no TVM.
"""
import argparse
import csv
import gzip
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

# Paths are relative to the checkout, and the bundle's settings have them so.
ROOT = pathlib.Path(__file__).resolve().parent.parent
BUNDLE, SCORES = pathlib.Path("pretrained/x86-cpu.foretime"), pathlib.Path("pretrained/x86-cpu.scores.json")
SETTINGS = "configs/pretrained_x86_cpu.yaml"
KEPT = 40  # records whose scores are kept, evenly over the file
HELD_OUT = 6  # of so many workloads, in the order of their keys, the first
METRICS = ("pairwise_accuracy", "kendall_tau", "top1_score", "top5_score", "mape")


class Work:
    """Packs and trains in a folder of its own, made anew."""

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.sources = [pathlib.Path("samples/ansor"), *sorted(path.parent for path in pathlib.Path("measured").glob("*/records.jsonl.gz"))]
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
        print(self.foretime("data", "pack-records", self.folder / name, *records, "--dags", self.dags, "--targets", *self.machines), end="")

    def train(self, *overrides):
        """The run directory."""
        run, targets = self.folder / "run", ", ".join(os.path.relpath(path, self.folder) for path in self.machines)
        self.foretime("train", "--quiet", SETTINGS, f"data.root={self.folder}", f"run.directory={run}", f"data.targets=[{targets}]", *overrides)
        return run


def make_bundle(work, overrides):
    work.pack("records.foretime", [source / "records.jsonl.gz" for source in work.sources])
    run = work.train(*overrides)
    work.foretime("export", run, BUNDLE, "--licence", "Apache-2.0", "--force")
    samples = work.sources[0]
    rows = csv.DictReader(io.StringIO(work.foretime("rank", BUNDLE, samples / "records.jsonl.gz", "--dags", samples / "dags.jsonl.gz")))
    scores = {row["id"]: float(row["score"]) for row in rows}
    chosen = sorted(scores, key=int)[::max(1, len(scores) // KEPT)]
    SCORES.write_text(json.dumps({name: scores[name] for name in chosen}, indent=1) + "\n", encoding="utf-8")
    print(f"{BUNDLE}: {BUNDLE.stat().st_size / 1e6:.2f} MB")


def measure_held_out(work, overrides):
    lines = [line for source in work.sources for line in gzip.open(source / "records.jsonl.gz", "rt", encoding="utf-8")]
    keys = [json.loads(line)["i"][0][0] for line in lines]
    held_out = set(sorted(set(keys))[::HELD_OUT])
    for name, wanted in ("learned", False), ("held_out", True):
        records = work.folder / f"{name}.jsonl"
        records.write_text("".join(line for line, key in zip(lines, keys) if (key in held_out) == wanted), encoding="utf-8")
        work.pack(f"{name}.foretime", [records])
    run = work.train("data.train=[learned.foretime]", "data.test=[held_out.foretime]", "model.ensemble_size=1", *overrides)
    final = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    for kind in ("holdout", "test"):
        print(f"{kind}:", ", ".join(f"{name} {final[f'{kind}/{name}']:.3f}" for name in METRICS))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--foretime", default=str(ROOT / "build/release/cli/foretime"), type=os.path.abspath)
    parser.add_argument("--held-out", action="store_true", help="hold workloads out and print how their programs are ordered")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    begin = time.monotonic()
    if arguments.held_out:
        measure_held_out(Work(arguments.foretime, "runs/pretrained_held_out"), arguments.overrides)
    else:
        make_bundle(Work(arguments.foretime, "runs/pretrained"), arguments.overrides)
    print(f"pretrain.py: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
