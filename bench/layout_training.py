#!/usr/bin/env python3
"""Layout training throughput beside the PyTorch baseline, in one run: the residual GCN of the TpuGraphs paper on the same
files, with the same width, depth, batch, candidates, steps and threads. Whole graphs on both sides: no segment is cut.
Prints one JSON line; `ratio` is Foretime's candidates per second over the baseline's, `ratio_tuned` over the baseline's with
glibc told to keep freed memory, as Foretime's program does for itself. Compare ratios only: both sides ran on
one machine, one after the other.

A candidate is one configuration of one graph in one step, forward and backward. Both sides leave reading the files out of
the time. Foretime's rate counts from the second report on, when the plans of its graphs are warm; `first_report` is the rest.

usage: layout_training.py --foretime build/release/cli/foretime --peer torch_layout.py --data FOLDER [--python python3]
FOLDER is searched for the graphs, by default alexnet and unet3d.
"""
import json
import pathlib
import tempfile

from common import KEEP_MEMORY, add_peer_options, find_graphs, last_json, options_of, reports, run


def peer_rate(options, files, environment):
    command = [
        options.python,
        options.peer,
        "--train",
        *files,
        "--steps",
        options.steps,
        "--configs",
        options.candidates,
        "--batch",
        options.batch,
        "--hidden",
        options.hidden,
        "--layers",
        options.layers,
        "--threads",
        options.threads,
        "--segment",
        10**9,
        "--seed",
        options.seed,
    ]
    result = last_json(run(command, environment))
    return {
        "candidates_per_second": result["graph_configs_per_s"],
        "first_loss": result["first_loss"],
        "last_loss": result["last_loss"],
        "peak_rss_mb": result["peak_rss_mb"],
    }


SETTINGS = """\
data: {{format: layout, train: {files}}}
model:
  type: {model}
  hidden: {hidden}
  layers: {layers}
  node_type_embedding: 32
  encoder_layers: 2
  head_layers: 2
  readout: [mean, normalized_sum, configurable_normalized_sum]
  features: {{transform: minmax, layout_scale: 100}}
loss: {{type: listmle}}
optimizer: {{type: adam, learning_rate: 1.0e-3, clip_norm: 1.0}}
sampler: {{groups_per_batch: {batch}, candidates_per_group: {candidates}, samples_per_group: 8}}
trainer: {{steps: {steps}, log_every: {log_every}, threads: {threads}, device: cpu, seed: {seed}}}
checkpoint: {{resume: never}}
run: {{directory: {directory}}}
"""


def foretime_rate(options, files):
    with tempfile.TemporaryDirectory() as folder:
        run_folder = pathlib.Path(folder) / "run"
        settings = pathlib.Path(folder) / "layout.yaml"
        log_every = max(1, int(options.steps) // 5)
        settings.write_text(
            SETTINGS.format(**vars(options), files=json.dumps(files), log_every=log_every, directory=run_folder)
        )
        run([options.foretime, "train", settings], {"OMP_NUM_THREADS": str(options.threads)})
        lines = reports(run_folder, 2)
    # Each report covers as many candidates as steps, so the mean rate is the harmonic one.
    steps = [line["step"] - before["step"] for before, line in zip(lines, lines[1:])]
    seconds = [count / line["candidates_per_second"] for count, line in zip(steps, lines[1:])]
    return {
        "candidates_per_second": round(sum(steps) / sum(seconds), 2),
        "first_report": lines[0]["candidates_per_second"],
        "first_loss": lines[0]["loss"],
        "last_loss": lines[-1]["loss"],
    }


def main():
    parser = options_of(__doc__, steps=20, batch=4, candidates=16, hidden=32, layers=2, threads=2, seed=1)
    parser.add_argument("--foretime", required=True, help="the foretime program")
    parser.add_argument("--graphs", nargs="+", default=["alexnet", "unet3d"], help="starts of file names")
    add_peer_options(parser)
    parser.add_argument(
        "--model", default="residual_gcn", help="Foretime's model.type; the baseline has the residual GCN alone"
    )
    options = parser.parse_args()
    files = find_graphs(options.data, options.graphs)
    environment = {"OMP_NUM_THREADS": str(options.threads)}
    peer, tuned = peer_rate(options, files, environment), peer_rate(options, files, dict(environment, **KEEP_MEMORY))
    ours = foretime_rate(options, files)
    settings = {
        name: getattr(options, name) for name in ("steps", "batch", "candidates", "hidden", "layers", "threads", "seed")
    }
    print(
        json.dumps(
            {
                "bench": "layout_training",
                "graphs": [pathlib.Path(file).stem for file in files],
                **settings,
                "model": options.model,
                "pytorch": peer,
                "pytorch_tuned": tuned,
                "foretime": ours,
                "ratio": round(ours["candidates_per_second"] / peer["candidates_per_second"], 2),
                "ratio_tuned": round(ours["candidates_per_second"] / tuned["candidates_per_second"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
