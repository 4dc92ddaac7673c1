#!/usr/bin/env python3
"""All figures of docs/explanations/performance.md, one after the other on a quiet machine, as a Markdown table: each row is a command that prints a
ratio of two sides measured in the same run. A row whose inputs are missing says so.

usage: performance.py --build build/release --data FOLDER --peer torch_layout.py [--python python3] [--rows 1,2,5] [--scratch FOLDER]
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from common import MPI, add_peer_options, find_graphs, last_json, options_of, reports, run, synthesize

BENCH = pathlib.Path(__file__).resolve().parent


class Rows:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.foretime = pathlib.Path(options.build) / "cli/foretime"

    def peer_arguments(self):
        return [
            "--peer",
            self.options.peer,
            "--data",
            self.options.data,
            "--python",
            self.options.python,
            "--threads",
            2,
        ]

    def training(self, *arguments):
        found = last_json(
            run(
                [
                    sys.executable,
                    BENCH / "layout_training.py",
                    "--foretime",
                    self.foretime,
                    *self.peer_arguments(),
                    *arguments,
                ]
            )
        )
        ours, peer = found["foretime"]["candidates_per_second"], found["pytorch"]["candidates_per_second"]
        return (
            f"{found['ratio']} x",
            f"{ours:.0f} against {peer:.0f} candidates/s; {found['ratio_tuned']} x with glibc told to keep memory",
        )

    def row1(self):
        """layout training, residual GCN 2 x 32, candidates a second | torch_layout.py | >= 20 x"""
        return self.training("--steps", 60)

    def row2(self):
        """layout training, SAGE 3 x 256 | torch_layout.py --hidden 256 --layers 3 | >= 10 x"""
        return self.training("--steps", 10, "--model", "sage", "--hidden", 256, "--layers", 3)

    def row3(self):
        """scoring every candidate of alexnet, residual GCN 2 x 32 | torch_layout.py | >= 200 x"""
        found = last_json(
            run(
                [
                    sys.executable,
                    BENCH / "layout_scoring.py",
                    "--bench",
                    pathlib.Path(self.options.build) / "bench/scoring_bench",
                    *self.peer_arguments(),
                ]
            )
        )
        ours = found["foretime"]
        return f"{found['ratio']} x", (
            f"{ours['candidates']} in {ours['seconds']:.3f} s; {found['ratio_tuned']} x with glibc told to keep memory; "
            f"the baseline scored {found['pytorch']['scored']}"
        )

    def row4(self):
        """open a graph and sample the first batch | numpy.load | >= 10 x packed, >= 1.5 x .npz"""
        text = run(
            [
                pathlib.Path(self.options.build) / "bench/first_batch_bench",
                *sorted(pathlib.Path(self.options.data).rglob("layout/**/*.npz")),
            ]
        )
        lines = text.strip().splitlines()[-3:]
        return "see right", " ; ".join(lines)

    def row5(self):
        """peak memory while packing the largest member | its float32 size | <= 5 %"""
        member = self.scratch / "synthetic_largest.npz"
        synthesize(self.options.build, member, 43615, 364, 100040)
        code = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        peak = (
            int(
                run(
                    [
                        sys.executable,
                        "-c",
                        code,
                        self.foretime,
                        "data",
                        "pack",
                        "-o",
                        self.scratch / "largest.foretime",
                        member,
                    ]
                )
            )
            * 1024
        )
        bytes_of_member = 100040 * 364 * 18 * 4
        plain = int(run([sys.executable, "-c", code, self.foretime, "--version"])) * 1024
        return f"{100 * peak / bytes_of_member:.1f} %", (
            f"{peak / 2**20:.0f} MiB of {bytes_of_member / 2**20:.0f} MiB, the whole process; the full program takes "
            f"{plain / 2**20:.0f} MiB to say its version"
        )

    def row6(self):
        """2 ranks against 1, same global batch, SAGE 3 x 256 | ideal | >= 0.9"""
        found = last_json(
            run(
                [
                    sys.executable,
                    BENCH / "scaling.py",
                    "--foretime",
                    self.foretime,
                    "--synthetic",
                    8,
                    "--model",
                    "sage",
                    "--hidden",
                    256,
                    "--layers",
                    3,
                    "--steps",
                    16,
                ]
            )
        )
        return (
            f"{found['ratio']:.2f}",
            f"the machine itself reaches {found['machine']:.2f} with two independent runs; predicted {found['predicted']:.2f}",
        )

    def row7(self):
        """imbalance of the plan for the published sizes on 8, 64, 512 ranks | mean load | <= 2 %"""
        sizes = next(pathlib.Path(self.options.data).rglob("xla_random_graph_sizes.csv"))
        found = json.loads(
            run(
                [
                    self.foretime,
                    "plan",
                    "--sizes",
                    sizes,
                    "--ranks",
                    "8,64,512",
                    "--groups-per-rank",
                    8,
                    "--json",
                    "sampler.samples_per_group=0",
                ]
            )
        )
        return "see right", json.dumps(
            [{key: plan[key] for key in plan if "imbalance" in key or key == "ranks"} for plan in found["plans"]]
        )

    def row8(self):
        """all-reduce exposed beyond compute, 2 ranks, SAGE 3 x 256 | step time | <= 5 %"""
        directory = self.scratch / "exposed"
        files = find_graphs(self.options.data, ("alexnet", "unet3d"))
        run(
            [
                "mpirun",
                "-n",
                2,
                "--oversubscribe",
                self.foretime,
                "train",
                "--quiet",
                self.settings(files),
                f"run.directory={directory}",
            ],
            MPI,
        )
        lines = reports(directory, 2)[1:]
        exposed = sum(line["comm_exposed_ms"] for line in lines) / len(lines)
        step = 1000 * sum(64 / line["candidates_per_second"] for line in lines) / len(lines)
        return f"{100 * exposed / step:.1f} %", f"{exposed:.2f} ms of a step of {step:.0f} ms"

    def row9(self):
        """start on a packed collection of 100 graphs, to the first step's report | the clock | <= 2 s"""
        for i in range(100):
            file = self.scratch / f"synthetic_start_{i:03}.npz"
            synthesize(self.options.build, file, 2030 + 30 * i, 53 + 3 * i, 500, i + 1)
        packed = self.scratch / "hundred.foretime"
        run([self.foretime, "data", "pack", "-o", packed, self.scratch / "synthetic_start_*.npz"])
        settings = self.scratch / "start.yaml"
        settings.write_text("model: {type: residual_gcn, hidden: 32, layers: 2}\n")
        command = [
            self.foretime,
            "train",
            settings,
            "data.format=layout",
            f"data.train=[{packed}]",
            "sampler.groups_per_batch=4",
            "trainer.steps=400",
            "trainer.log_every=1",
            "trainer.device=cpu",
            f"run.directory={self.scratch / 'start'}",
        ]
        start, seconds = time.monotonic(), None
        with subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            for line in process.stdout:
                if seconds is None and "step 1/" in line:
                    seconds = time.monotonic() - start
            peak = os.wait4(process.pid, 0)[2].ru_maxrss
            process.returncode = 0
        if seconds is None:
            raise RuntimeError(f"{shlex.join(map(str, command))}: no step was reported")
        return (
            f"{seconds:.2f} s",
            f"peak {peak / 1024:.0f} MiB in 400 steps, the packed file of {packed.stat().st_size / 2**20:.0f} MiB mapped",
        )

    def settings(self, files):
        file = self.scratch / "exposed.yaml"
        file.write_text(
            json.dumps(
                {
                    "data": {"format": "layout", "train": files},
                    "model": {"type": "sage", "hidden": 256, "layers": 3},
                    "sampler": {"groups_per_batch": 4, "candidates_per_group": 16, "samples_per_group": 8},
                    "trainer": {"steps": 20, "log_every": 4, "threads": 1, "device": "cpu"},
                    "checkpoint": {"resume": "never"},
                }
            )
        )
        return file


def main():
    parser = options_of(__doc__)
    parser.add_argument("--build", default="build/release")
    add_peer_options(parser)
    parser.add_argument("--rows", default="1,2,3,4,5,6,7,8,9")
    parser.add_argument("--scratch", help="folder for large files, 3 GiB; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        rows = Rows(options, pathlib.Path(scratch))
        print("| what | against | reach | measured | |\n|---|---|---|---|---|", flush=True)
        for number in options.rows.split(","):
            row = getattr(rows, f"row{number}")
            try:
                ratio, details = row()
            except (RuntimeError, SystemExit, StopIteration, OSError) as failure:
                ratio, details = "not measured", str(failure).replace("\n", " ")[:300]
            print(f"| {row.__doc__} | {ratio} | {details} |", flush=True)


if __name__ == "__main__":
    main()
