#!/usr/bin/env python3
"""What bfloat16 and TF32 cost in quality: three models trained with matrix products in float32, in bfloat16 (trainer.precision) and
rounded as TF32 rounds them, with several seeds each, and tau of what was held out beside the noise between seeds.

  bench/precision.py [--foretime build/release/cli/foretime] [--rounding build/release/bench/libtf32_rounding.so]
                     [--data data/tpugraphs] [--seeds 3] [--models NAME,…] [--steps PERCENT] [--out FILE.jsonl]

Everything runs on the CPU, one thread a training. TF32 is no number format of CPUs: tf32_rounding.cpp, loaded before the program, rounds both
factors of each product of float32 matrices, forward, backward and in evaluations. Evaluations of models trained in bfloat16 are
float32. A seed chooses weights, samples and what is held out, so precisions are compared seed by seed. Printed is a Markdown table: tau, mean over
seeds and (least to most), the mean difference from float32 of the same seed and the standard error of that mean, and the loss at
the end (mean of the last tenth of reports). Differences below their error, or below the spread of float32's own seeds, are none.
--out keeps a line for each training, and takes those that are there for done.
"""
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import tempfile

import common

MODELS = {
    "quickstart": (
        "GCN of the quick start",
        "configs/quickstart.yaml",
        1500,
        "test/kendall_tau",
        ["trainer.eval_every=0"],
    ),
    "layout": (
        "residual GCN, layouts",
        "configs/baselines/residual_gcn.yaml",
        600,
        "holdout/kendall_tau",
        ["trainer.eval_every=0", "data.holdout=0.2"],
    ),
    "statements": (
        "additive statement model",
        "configs/statement_cost.yaml",
        2000,
        "test/kendall_tau",
        ["model.ensemble_size=1"],
    ),
}
PRECISIONS = ("float32", "bfloat16", "tf32")


def check_rounding(library):
    """That the library rounds as it says, asked through Python's torch where it is the LibTorch that Foretime uses."""
    code = """
import numpy as np, torch
torch.manual_seed(1)
def tf32(x): return ((x.numpy().view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xffffe000)).view(np.float32).astype(np.float64)
a, b, c = torch.randn(40, 30), torch.randn(30, 20), torch.randn(20)
exact = tf32(a) @ tf32(b)
plain = a.double().numpy() @ b.double().numpy()
for name, got in (("mm", a @ b), ("linear", torch.nn.functional.linear(a, b.t(), c) - c), ("bmm", torch.bmm(a[None], b[None])[0])):
    near, far = abs(got.double().numpy() - exact).max(), abs(got.double().numpy() - plain).max()
    assert near < 1e-5 < 1e-4 < far, (name, near, far)
"""
    common.run(["/usr/bin/python3", "-c", code], {"LD_PRELOAD": str(library)})


def train(options, name, precision, seed):
    _, settings, steps, metric, overrides = MODELS[name]
    steps = max(20, steps * options.steps // 100)
    with tempfile.TemporaryDirectory() as folder:
        words = [
            options.foretime,
            "train",
            common.SOURCE / settings,
            f"run.directory={folder}/run",
            f"trainer.steps={steps}",
            "trainer.log_every=10",
            f"trainer.seed={seed}",
            "trainer.threads=1",
            "trainer.device=cpu",
            "trainer.baselines=[]",
            "checkpoint.resume=never",
            "--quiet",
            *overrides,
            f"trainer.precision={'bfloat16' if precision == 'bfloat16' else 'float32'}",
        ]
        if name == "layout":
            words.append(f"data.root={options.data.resolve()}")
        common.run(
            words,
            {"OMP_NUM_THREADS": "1", **({"LD_PRELOAD": str(options.rounding)} if precision == "tf32" else {})},
            cwd=common.SOURCE,
        )
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    final = next(line for line in lines if line["kind"] == "final")
    return {
        "model": name,
        "precision": precision,
        "seed": seed,
        "steps": steps,
        "tau": final[metric],
        "first_loss": losses[0],
        "loss": statistics.fmean(losses[-max(1, len(losses) // 10) :]),
        "metrics": {key: value for key, value in final.items() if key.endswith("/kendall_tau")},
    }


def row(runs, plain):
    taus, losses = [run["tau"] for run in runs], [run["loss"] for run in runs]
    differences = [run["tau"] - other["tau"] for run, other in zip(runs, plain)]
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    apart = "" if runs is plain else f"{statistics.fmean(differences):+.4f} ± {error:.4f}"
    return (
        f"{statistics.fmean(taus):.4f} ({min(taus):.4f} to {max(taus):.4f}) | {apart} | "
        f"{statistics.fmean(losses):.4g} ({min(losses):.4g} to {max(losses):.4g})"
    )


def main():
    parser = common.options_of(__doc__, seeds=3, steps=100, jobs=2)
    parser.add_argument("--foretime", type=pathlib.Path, default=common.SOURCE / "build/release/cli/foretime")
    parser.add_argument(
        "--rounding", type=pathlib.Path, default=common.SOURCE / "build/release/bench/libtf32_rounding.so"
    )
    parser.add_argument("--data", type=pathlib.Path, default=common.SOURCE / "data/tpugraphs")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    options.foretime, options.rounding = options.foretime.resolve(), options.rounding.resolve()
    check_rounding(options.rounding)
    done = {}
    if options.out and options.out.exists():
        done = {
            (run["model"], run["precision"], run["seed"]): run
            for run in map(json.loads, options.out.read_text().splitlines())
        }
    wanted = [
        (name, precision, seed)
        for name in options.models.split(",")
        for seed in range(1, options.seeds + 1)
        for precision in PRECISIONS
    ]

    def one(key):
        if key not in done:
            done[key] = train(options, *key)
            print(json.dumps(done[key]), file=options.log, flush=True)

    with open(options.out or os.devnull, "a") as options.log, concurrent.futures.ThreadPoolExecutor(
        options.jobs
    ) as pool:
        list(pool.map(one, wanted))
    print("| model | products in | τ | from float32 | loss |\n|---|---|---|---|---|")
    for name in options.models.split(","):
        plain = [done[name, "float32", seed] for seed in range(1, options.seeds + 1)]
        for precision in PRECISIONS:
            runs = [done[name, precision, seed] for seed in range(1, options.seeds + 1)]
            if precision != "float32" and any(
                run["first_loss"] == other["first_loss"] for run, other in zip(runs, plain)
            ):
                raise SystemExit(f"{name}: {precision} computed the very bits of float32: it was not in force")
            print(f"| {MODELS[name][0]} | {precision} | {row(runs, plain)} |")


if __name__ == "__main__":
    main()
