#!/usr/bin/env python3
"""Trains every settings file, and variants of models and losses, a few steps with two builds and compares what they leave.

  tools/check/compare_builds.py OLD/foretime NEW/foretime [--data FOLDER] [--only WORD] [--ranks N]

For whoever changes the structure of the code and wants to know that no number moved. Compared are the weights, the
optimizer's state, the losses, the evaluations and the scores of the rankings of each case. One line a case: `same`
(bitwise), the largest relative difference, `refused` where both builds refuse it with the same words, or how they differ.
Exit code 1 where a case differs by more than --tolerance, and where none was compared.
"""

import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[2]
# Bfloat16 by its bits.
CODES = {
    "F32": ("f", 4),
    "F64": ("d", 8),
    "F16": ("e", 2),
    "BF16": ("H", 2),
    "I64": ("q", 8),
    "I32": ("i", 4),
    "U8": ("B", 1),
    "BOOL": ("?", 1),
}
CLOCKS = ("second", "comm_", "straggler", "eta", "time", "waited_for", "slow_link", "cpu_cores", "memory_mib", "gpu_")
STEPS = [
    "trainer.steps=4",
    "trainer.eval_every=2",
    "trainer.log_every=1",
    "checkpoint.every_steps=4",
    "data.max_eval_candidates=60",
    "optimizer.warmup_steps=0",
    "trainer.baselines=[]",
]


def variants():
    """Settings file, overrides: what configs/ holds, then each choice of models and losses beside a common base."""
    files = [
        *sorted(HERE.glob("configs/tpugraphs/*.yaml")),
        *sorted(HERE.glob("configs/baselines/*.yaml")),
        *(HERE / "configs" / name for name in ("quickstart.yaml", "statement_cost.yaml", "tpgnn.yaml")),
    ]
    for path in files:
        yield path, []
    layout, tile = HERE / "configs/tpugraphs/layout_xla_random.yaml", HERE / "configs/tpugraphs/tile_xla.yaml"
    quick = HERE / "configs/quickstart.yaml"
    for path in (layout, tile, quick):
        for model in ("mlp", "gcn", "sage", "gin", "gat", "chebnet", "transformer", "residual_gcn", "preactivated_gcn"):
            yield path, [f"model.type={model}"]
        for norm in ("layer", "graph", "batch"):
            yield path, ["model.type=sage", f"model.norm={norm}"]
        for readout in ("mean", "sum", "max", "normalized_sum", "configurable_max" if path != quick else "mean"):
            yield path, [
                "model.type=sage",
                f"model.readout=[{readout},mean]" if readout != "mean" else "model.readout=[mean]",
            ]
        for extra in (
            "model.dropout=0.2",
            "model.edge_dropout=0.2",
            "model.l2_normalize=true",
            "model.candidate_norm=true",
            "model.candidate_attention=true",
            "model.ensemble_size=3",
            "model.head_bias=all",
            "averaging.type=ema",
            "trainer.precision=bfloat16",
            "optimizer.type=adam",
            "optimizer.clip=tensor",
        ):
            yield path, ["model.type=sage", extra]
        for loss in ("mse", "huber", "l1", "listmle", "pairwise_hinge", "pairwise_logistic"):
            yield path, ["model.type=sage", f"loss.type={loss}"]
    for sharing in ("states", "invariant", "none"):
        yield layout, [f"model.sharing={sharing}"]
    for stale in ("scores", "pools", "full_forward", "none"):
        yield layout, [
            "model.type=sage",
            "model.candidate_norm=false",
            "sampler.max_segment_nodes=300",
            f"segments.stale={stale}",
        ]
    yield layout, ["model.layout_gate=true"]
    yield layout, ["data.prune_hops=2"]
    yield tile, ["model.tile_join=late"]


def numbers_of_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            code, width = CODES[entry["dtype"]]
            found[name] = struct.unpack(f"<{(end - begin) // width}{code}", raw[8 + size + begin : 8 + size + end])
    return found


def results_of(folder):
    """Name to numbers of everything that a run computed; clocks are left out."""
    found = {}
    for path in sorted(folder.rglob("*.safetensors")):
        for name, values in numbers_of_safetensors(path).items():
            found[f"{path.relative_to(folder)}:{name}"] = values
    for path in sorted(folder.rglob("rankings.csv")):
        with path.open(newline="") as table:
            rows = list(csv.DictReader(table))
        found[f"{path.relative_to(folder)}:score"] = tuple(float(row["score"]) for row in rows)
    for path in sorted(folder.rglob("metrics.jsonl")):
        for number, line in enumerate(path.read_text().splitlines()):
            for key, value in json.loads(line).items():
                if isinstance(value, (int, float)) and not any(word in key for word in CLOCKS):
                    found[f"{path.relative_to(folder)}:{number}:{key}"] = (float(value),)
    return found


def difference(old, new):
    """Largest |a - b| over the largest |a| of its tensor, and where."""
    if old.keys() != new.keys():
        return math.inf, ", ".join(sorted(old.keys() ^ new.keys())[:3])
    worst, where = 0.0, ""
    for name, left in old.items():
        right = new[name]
        if left == right:
            continue
        scale = max((abs(value) for value in left if math.isfinite(value)), default=0.0) or 1.0
        gaps = [abs(a - b) for a, b in zip(left, right) if a == a or b == b]
        gap = math.inf if len(left) != len(right) or any(map(math.isnan, gaps)) else max(gaps, default=0.0) / scale
        if gap > worst:
            worst, where = gap, name
    return worst, where


def data_overrides(path, data):
    """Where the data lie; a split that is not there is left out of valid, and taken from another split for train."""
    root, found = pathlib.Path(data, "tpugraphs"), []
    if "data/tpugraphs" not in path.read_text():
        return found
    found.append(f"data.root={root}")
    for split, folder in re.findall(r"^  (train|valid): \[(npz/[^\],]+)\]", path.read_text(), re.MULTILINE):
        if (root / folder).exists():
            continue
        others = [f"npz/{other.relative_to(root / 'npz')}" for other in sorted((root / folder).parent.glob("*"))]
        found += [f"data.{split}=[{others[0]}]" if split == "train" and others else f"data.{split}=[]"]
        if split == "valid":
            found.append("data.eval_indices=")
    return found


def run(program, path, overrides, ranks, data, folder):
    command = [
        str(program),
        "train",
        str(path),
        "--quiet",
        *STEPS,
        f"run.directory={folder}",
        *data_overrides(path, data),
    ]
    if "finetune_steps" in path.read_text():
        command.append("segments.finetune_steps=1")
    command += overrides
    if ranks > 1:
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *command]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def compare(case, arguments):
    path, overrides = case
    with tempfile.TemporaryDirectory() as scratch:
        old, new = pathlib.Path(scratch, "old"), pathlib.Path(scratch, "new")
        ends = [
            run(program, path, overrides, arguments.ranks, arguments.data, folder)
            for program, folder in ((arguments.old, old), (arguments.new, new))
        ]
        if ends[0][0] or ends[1][0]:
            return ("refused", ends[0][1]) if ends[0] == ends[1] else ("DIFFERS", f"{ends[0]} and {ends[1]}")
        worst, where = difference(results_of(old), results_of(new))
    if worst == 0:
        return "same", ""
    return ("close" if worst <= arguments.tolerance else "DIFFERS"), f"{worst:.2g} {where}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--data", default=str(HERE.parent / "shared/data"), help="folder of tpugraphs/")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    arguments = parser.parse_args()
    arguments.old, arguments.new = arguments.old.resolve(), arguments.new.resolve()
    cases = [case for case in variants() if arguments.only in " ".join([str(case[0].relative_to(HERE)), *case[1]])]
    counts = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, (verdict, why) in zip(cases, pool.map(lambda case: compare(case, arguments), cases)):
            counts[verdict] = counts.get(verdict, 0) + 1
            print(f"{verdict:8} {case[0].relative_to(HERE)} {' '.join(case[1])} {why}".rstrip(), flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if not cases or "DIFFERS" in counts or set(counts) == {"refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
