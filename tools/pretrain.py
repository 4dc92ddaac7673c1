#!/usr/bin/env python3
"""Makes pretrained/x86-cpu.foretime of the measured programs that the project ships, with one command.

  tools/pretrain.py [--foretime build/release/cli/foretime] [--out pretrained] [key=value ...]

Packs samples/ansor and each folder of measured/ (records.jsonl.gz, dags.jsonl.gz, machine.yaml), trains configs/pretrained_x86_cpu.yaml,
exports the best checkpoint, and writes what the bundle says of some records of samples/ansor to x86-cpu.scores.json, which a test compares.
Overrides are those of `foretime train`. Needs no TVM.
"""
import argparse
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "x86-cpu"
KEPT = 40  # records whose scores are kept, evenly over the file


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--foretime", default=str(ROOT / "build/release/cli/foretime"))
    parser.add_argument("--out", default=str(ROOT / "pretrained"))
    parser.add_argument("--work", default=str(ROOT / "runs/pretrained"), help="folder for what lies between (%(default)s)")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    work, out = pathlib.Path(arguments.work), pathlib.Path(arguments.out)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    out.mkdir(exist_ok=True)
    begin = time.monotonic()

    def foretime(*command):
        done = subprocess.run([arguments.foretime, *map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"pretrain.py: foretime {' '.join(map(str, command))} ended with {done.returncode}")
        return done.stdout

    folders = [ROOT / "samples/ansor", *sorted(path.parent for path in (ROOT / "measured").glob("*/records.jsonl.gz"))]
    with open(work / "dags.jsonl.gz", "wb") as dags:  # members of gzip may follow each other
        for folder in folders:
            dags.write((folder / "dags.jsonl.gz").read_bytes())
    machines = [folder / "machine.yaml" for folder in folders]
    print(foretime("data", "pack-records", work / "records.foretime", *(folder / "records.jsonl.gz" for folder in folders),
                   "--dags", work / "dags.jsonl.gz", "--targets", *machines), end="")
    # Paths in the bundle's settings are those of a checkout, wherever it lies.
    root = os.path.relpath(work, ROOT)
    targets = ", ".join(os.path.relpath(path, work) for path in machines)
    foretime("train", "--quiet", "configs/pretrained_x86_cpu.yaml", f"data.root={root}", f"run.directory={root}/run",
             f"data.targets=[{targets}]", *arguments.overrides)
    bundle = out / f"{NAME}.foretime"
    foretime("export", work / "run", bundle, "--licence", "Apache-2.0", "--force")
    rows = csv.DictReader(io.StringIO(foretime("rank", bundle, folders[0] / "records.jsonl.gz", "--dags", folders[0] / "dags.jsonl.gz")))
    scores = {row["id"]: float(row["score"]) for row in rows}
    chosen = sorted(scores, key=int)[::max(1, len(scores) // KEPT)]
    (out / f"{NAME}.scores.json").write_text(json.dumps({name: scores[name] for name in chosen}, indent=1) + "\n")
    print(f"{bundle}: {bundle.stat().st_size / 1e6:.2f} MB in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
