#!/usr/bin/env python3
"""Scoring every candidate of a layout graph beside the PyTorch baseline, in one run: the residual GCN, the same file, width,
depth and threads. The baseline scores --sample candidates, since all of them take minutes, and its rate stands for the rest: it
treats all alike. Both sides leave reading the file out of the time. Prints one JSON line; `ratio` is Foretime's rate over the
baseline's, `ratio_tuned` over the baseline's with glibc told to keep freed memory (as Foretime's program does for itself).

usage: layout_scoring.py --bench build/release/bench/scoring_bench --peer torch_layout.py --data FOLDER [--python python3]
"""
import json
import pathlib

from common import KEEP_MEMORY, add_peer_options, find_graphs, last_json, options_of, run

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


def main():
    parser = options_of(__doc__, hidden=32, layers=2, threads=2, sample=2000, rounds=5)
    parser.add_argument("--bench", required=True, help="the scoring_bench program")
    parser.add_argument("--graph", default="alexnet", help="start of the file's name")
    add_peer_options(parser)
    options = parser.parse_args()
    file = find_graphs(options.data, [options.graph])[0]
    threads = {"OMP_NUM_THREADS": str(options.threads)}
    peer = [
        options.python,
        "-c",
        PEER,
        options.peer,
        file,
        options.hidden,
        options.layers,
        options.threads,
        options.sample,
    ]
    plain, tuned = (last_json(run(peer, {**threads, **more})) for more in ({}, KEEP_MEMORY))
    ours = last_json(
        run(
            [options.bench, file, "residual_gcn", options.hidden, options.layers, options.threads, options.rounds],
            {**threads, "OMP_WAIT_POLICY": "passive"},
        )
    )
    rate = ours["candidates_per_second"]
    print(
        json.dumps(
            {
                "bench": "layout_scoring",
                "graph": pathlib.Path(file).stem,
                "hidden": options.hidden,
                "layers": options.layers,
                "threads": options.threads,
                "pytorch": plain,
                "pytorch_tuned": tuned,
                "foretime": ours,
                "ratio": round(rate / plain["candidates_per_second"], 1),
                "ratio_tuned": round(rate / tuned["candidates_per_second"], 1),
            }
        )
    )


if __name__ == "__main__":
    main()
