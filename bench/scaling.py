#!/usr/bin/env python3
"""Two ranks against one, same global batch, one thread each, and what the model of bench/step_time.h says of it.

Rounds alternate between three programs, and the best of each counts:
  one    `foretime train` alone
  two    `mpirun -n 2 foretime train`
  both   two independent runs of `one` at the same time: what the machine itself loses when both cores work
Prints one JSON line. `ratio` is one / (2 two), 1 where two ranks are twice as fast; `machine` is one / both, what the best
program could reach; `predicted` is the model's, fed with the run of one rank and the plan. `lost` says where the rest went, as parts of
two ranks' step: `imbalance` (planned), `exposed` (communication that backward did not hide), `machine`, and `other`.

usage: scaling.py --foretime build/release/cli/foretime [--synthetic 8 | --data FOLDER] [--ranks 2]
FOLDER holds TpuGraphs layout files; --graphs names some (alexnet and unet3d). Draws of one graph in a batch share states, so that half of
them costs more than half, and ranks take whole graphs: two that cost unlike much are uneven. --synthetic makes so many different graphs of
3,000 nodes.
Without either the samples' tensor programs are used.
"""
import json
import pathlib
import tempfile

from common import MPI, SOURCE, find_graphs, finish, options_of, reports, run, start, synthesize

LAYOUT = """\
data: {{format: layout, train: {files}}}
model: {{type: {model}, hidden: {hidden}, layers: {layers}}}
"""
PROGRAMS = """\
data: {{format: programs, root: {root}, train: [C1.npz, C5.npz, C8.npz, C12.npz]}}
model: {{type: gcn, hidden: {hidden}, layers: {layers}, readout: [mean], features: {{transform: zscore}}}}
"""
REST = """\
sampler: {{groups_per_batch: {batch}, candidates_per_group: {candidates}, samples_per_group: 8}}
trainer: {{steps: {steps}, log_every: {log_every}, threads: 1, device: cpu}}
checkpoint: {{resume: never}}
run: {{directory: {directory}}}
"""


ENVIRONMENT = {**MPI, "OMP_NUM_THREADS": "1"}


def report(directory):
    """Seconds a step and exposed seconds a step, without the first interval."""
    lines = reports(directory, 3)
    steps = lines[-1]["step"] - lines[0]["step"]
    return (lines[-1]["seconds"] - lines[0]["seconds"]) / steps, sum(
        line["comm_exposed_ms"] for line in lines[1:]
    ) / 1e3 / (len(lines) - 1)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.count = options, pathlib.Path(folder), 0
        files = (
            find_graphs(options.data, options.graphs.split(",")) if options.data else self.synthesize(options.synthetic)
        )
        self.text = (
            LAYOUT.format(files=json.dumps(files), **vars(options))
            if files
            else PROGRAMS.format(root=SOURCE / "samples" / "resnet18_conv2d", **vars(options))
        )

    def synthesize(self, graphs):
        files = [str(self.folder / f"synthetic_{i}.foretime") for i in range(graphs)]
        for seed, file in enumerate(files):
            synthesize(pathlib.Path(self.options.foretime).parents[1], file, 3000, 60, 1000, seed + 1)
        return files

    def settings(self):
        self.count += 1
        directory = self.folder / f"run{self.count}"
        path = self.folder / f"settings{self.count}.yaml"
        path.write_text(
            self.text
            + REST.format(directory=directory, log_every=max(1, self.options.steps // 8), **vars(self.options))
        )
        return path, directory

    def run(self, ranks=1, copies=1):
        """The slowest copy's seconds a step, exposed seconds, run directory."""
        runs = [self.settings() for _ in range(copies)]
        launch = ["mpirun", "-n", ranks] if ranks > 1 else []
        for process in [
            start([*launch, self.options.foretime, "train", "--quiet", path], ENVIRONMENT) for path, _ in runs
        ]:
            finish(process)
        return max((*report(directory), directory) for _, directory in runs)

    def predict(self, directory):
        path = self.folder / "settings1.yaml"
        bench = pathlib.Path(self.options.foretime).parents[1] / "bench/step_time_bench"
        return json.loads(
            run(
                [
                    bench,
                    path,
                    "--ranks",
                    self.options.ranks,
                    "--measured",
                    directory,
                    "--ranks-per-host",
                    self.options.ranks,
                    "--inside-latency",
                    self.options.latency,
                    "--inside-bandwidth",
                    self.options.bandwidth,
                ],
                ENVIRONMENT,
            )
        )[0]


def main():
    parser = options_of(__doc__, ranks=2, rounds=3, steps=80, batch=8, candidates=16, hidden=32, layers=2)
    parser.add_argument("--foretime", required=True, help="the foretime program")
    parser.add_argument("--data", help="folder with TpuGraphs layout files")
    parser.add_argument("--graphs", default="alexnet,unet3d", help="beginnings of the names of files below --data")
    parser.add_argument("--synthetic", type=int, default=0, help="number of made-up layout graphs")
    parser.add_argument("--model", default="residual_gcn", help="model.type for layout graphs")
    parser.add_argument(
        "--latency", type=float, default=5e-6, help="seconds of a small message between ranks of this machine"
    )
    parser.add_argument("--bandwidth", type=float, default=3e9, help="bytes a second between ranks of this machine")
    options = parser.parse_args()
    options.foretime = str(pathlib.Path(options.foretime).resolve())
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        one, two, both = [], [], []
        for _ in range(options.rounds):
            one.append(bench.run())
            two.append(bench.run(ranks=options.ranks))
            both.append(bench.run(copies=options.ranks))
        one, two, both = min(one), min(two), min(both)
        plan = bench.predict(one[2])
    ideal = one[0] / options.ranks
    parts = {
        "imbalance": plan["waiting_seconds"] / two[0],
        "exposed": two[1] / two[0],
        "machine": (both[0] - one[0]) / options.ranks / two[0],
    }
    parts["other"] = (two[0] - ideal) / two[0] - sum(parts.values())
    print(
        json.dumps(
            {
                "bench": "scaling",
                "data": options.graphs
                if options.data
                else f"{options.synthetic} synthetic"
                if options.synthetic
                else "programs",
                "ranks": options.ranks,
                **{name: getattr(options, name) for name in ("steps", "batch", "candidates", "hidden", "layers")},
                "step_ms": {
                    "one": round(1e3 * one[0], 3),
                    "two": round(1e3 * two[0], 3),
                    "both": round(1e3 * both[0], 3),
                },
                "ratio": round(ideal / two[0], 3),
                "machine": round(one[0] / both[0], 3),
                "predicted": round(plan["efficiency"], 3),
                "planned_imbalance": {"epoch": round(plan["imbalance"], 4), "step": round(plan["step_imbalance"], 4)},
                "lost": {name: round(value, 3) for name, value in parts.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
