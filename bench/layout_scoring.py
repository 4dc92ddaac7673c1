#!/usr/bin/env python3
"""Scoring every candidate of a layout graph beside the PyTorch baseline, in one run: the residual GCN, the same file, width,
depth and threads. The baseline scores --sample candidates, since all of them take minutes, and its rate stands for the rest: it
treats all alike. Both sides leave reading the file out of the time. Prints one JSON line; `ratio` is Foretime's rate over the
baseline's, `ratio_tuned` over the baseline's with glibc told to keep freed memory (as Foretime's program does for itself).

usage: layout_scoring.py --bench build/release/bench/scoring_bench --peer torch_layout.py --data FOLDER [--python python3]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}

# The baseline's own functions, without its command line.
PEER = """
import json, sys, time
source = open(sys.argv[1]).read()
assert source.rstrip().endswith("\\nmain()"), "the baseline ends in a call of main"
names = {}
exec(compile(source.rstrip()[:-len("main()")], sys.argv[1], "exec"), names)
np, torch = names["np"], names["torch"]
file, hidden, layers, threads, sample = sys.argv[2], *map(int, sys.argv[3:])
torch.manual_seed(1); torch.set_num_threads(threads)
g = names["load"](file)
keep = g["feat"].max(0).values > g["feat"].min(0).values
g["feat"] = g["feat"][:, keep]; g["adj"] = names["sym_adj"](g["edge"], g["n"])
model = names["ResGCN"](int(keep.sum()), int(g["op"].max()) + 1, hidden, layers)
rows = np.random.default_rng(1).permutation(len(g["runtime"]))[:sample]
def score(rows):
    with torch.no_grad():
        for i in range(0, len(rows), 50):
            model.readout(g, model.nodes(g, g["adj"], names["scatter_cfg"](g, rows[i:i + 50]))).numpy()
score(rows[:100])
start = time.perf_counter(); score(rows); seconds = time.perf_counter() - start
print(json.dumps({"scored": len(rows), "seconds": round(seconds, 3), "candidates_per_second": round(len(rows) / seconds, 1)}))
"""


def run(command, environment=None):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the scoring_bench program")
    parser.add_argument("--peer", required=True, help="the PyTorch baseline's script")
    parser.add_argument("--data", required=True, help="folder with TpuGraphs layout files")
    parser.add_argument("--graph", default="alexnet", help="start of the file's name")
    parser.add_argument("--python", default="python3", help="an interpreter that has torch and numpy")
    for name, value in dict(hidden=32, layers=2, threads=2, sample=2000, rounds=5).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    files = sorted(path for path in pathlib.Path(options.data).rglob("*.npz") if path.name.startswith(options.graph))
    if not files:
        sys.exit(f"{options.data}: no {options.graph}*.npz below it")
    peer = [options.python, "-c", PEER, options.peer, files[0], options.hidden, options.layers, options.threads, options.sample]
    threads = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    plain = run(peer, threads)
    tuned = run(peer, dict(threads, **KEEP_MEMORY))
    ours = run([options.bench, files[0], "residual_gcn", options.hidden, options.layers, options.threads, options.rounds],
               dict(threads, OMP_WAIT_POLICY="passive"))
    rate = ours["candidates_per_second"]
    print(json.dumps({"bench": "layout_scoring", "graph": files[0].stem, "hidden": options.hidden, "layers": options.layers,
                      "threads": options.threads, "pytorch": plain, "pytorch_tuned": tuned, "foretime": ours,
                      "ratio": round(rate / plain["candidates_per_second"], 1),
                      "ratio_tuned": round(rate / tuned["candidates_per_second"], 1)}))


if __name__ == "__main__":
    main()
