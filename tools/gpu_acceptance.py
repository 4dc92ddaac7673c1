#!/usr/bin/env python3
"""Runs the checks of gpu_acceptance (tests/acceptance) one after the other, each in a process of its own with a time limit,
and sums up: OUT/acceptance.json, and the same as a table in OUT/table.txt, both written again after each check. tools/gpu_acceptance.sh builds the program and calls this.

  gpu_acceptance.py --program build/gpu/tests/acceptance/gpu_acceptance --out OUT [--device cpu|cuda] [--seconds 560] [--only a,b] [--brief]

A check that fails, dies or is late is a row, and the next one begins. Beside the program's checks: two ranks under mpirun,
PyTorch Geometric on the same model and data (bench/pyg_layout.py), and three steps under compute-sanitizer.

Exit code: 0 where all that must hold does, 1 where something does not or could not be looked at, 3 where all holds and
there was no GPU (--device cpu: 0). Checks are told apart by `kind`: must, target (of speed), figure.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
RATIO = "residual GCN 2 x 32: GPU, steps for one of PyTorch's"
AHEAD = 10  # times as fast as PyTorch Geometric on layout training
# For mpirun on one machine, as in bench/common.py: as root, and with more ranks than cores.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


class Runner:
    def __init__(self, options):
        self.options, self.rows = options, []
        self.deadline = time.monotonic() + options.seconds
        self.out = pathlib.Path(options.out).resolve()
        self.environment = {**MPI, **os.environ}
        if options.libraries:
            # The driver's libraries may be named there.
            self.environment["LD_LIBRARY_PATH"] = ":".join(
                filter(None, [options.libraries, os.environ.get("LD_LIBRARY_PATH")])
            )
        work, mark = self.out / "work", self.out / "work" / "made_by_gpu_acceptance"
        if work.exists() and not mark.exists():
            sys.exit(f"{work}: found a folder that this program did not make, expected none; name another --out")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        mark.touch()

    def add(self, check, what, kind="must", holds=None, note="", **more):
        self.rows.append({"check": check, "what": what, "kind": kind, "holds": holds, "note": note, **more})

    def run(self, check, command, limit, kind="must", environment=None):
        """The exit code, with output in OUT/CHECK.txt; None where it did not end in time, or could not begin. Both are rows."""
        left = self.deadline - time.monotonic()
        limit = min(limit * self.options.patience, left)
        if left < 5:
            self.add(check, "was not begun: the time is up", kind, False if kind == "must" else None)
            return None
        started, log = time.monotonic(), self.out / f"{check}.txt"
        with log.open("w") as output:
            try:
                process = subprocess.Popen(
                    [str(word) for word in command],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    env=environment or self.environment,
                )
            except OSError as error:
                self.add(check, f"could not begin: {error}", kind, False if kind == "must" else None)
                return None
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.add(
                    check,
                    f"did not end within {limit:.0f} s",
                    kind,
                    False if kind == "must" else None,
                    self.end_of(log),
                )
                return None
        self.add(check, "seconds", "figure", value=round(time.monotonic() - started, 1), unit="s")
        return code

    @staticmethod
    def end_of(log):
        return log.read_text(errors="replace")[-600:].strip()

    def check(self, name, limit, ranks=1, before=(), kind="must"):
        """One of the program's checks, whose rows it writes itself."""
        options, rows = self.options, self.out / "work" / f"{name}.jsonl"
        command = [
            *before,
            options.program,
            name,
            "--rows",
            rows,
            "--work",
            self.out / "work" / name,
            "--layouts",
            self.out / "layouts",
            "--source",
            SOURCE,
        ]
        if options.device:
            command += ["--device", options.device]
        if options.brief:
            command.append("--brief")
        if ranks > 1:
            if not options.mpirun:
                return self.add(name, "needs mpirun, which was not found", "must", False)
            command = [options.mpirun, "-n", ranks, *command]
        code = self.run(name, command, limit, kind)
        found = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
        self.rows += found
        if code is not None and (not found or (code != 0 and all(row["holds"] is not False for row in found))):
            # mpirun ends with an error of its own where ranks were refused before MPI was told of the end.
            refused = name == "nccl-refusal" and found
            self.add(
                name,
                "ended",
                kind,
                True if refused else False,
                f"exit code {code}: {self.end_of(self.out / f'{name}.txt')}",
            )
        return None

    def facts(self):
        """The program's own, and what the driver says of clocks, power and links."""
        self.check("facts", 60)
        program = shutil.which("nvidia-smi")
        for what, words in (
            (("clocks and power", ["-q", "-d", "CLOCK,POWER"]), ("topology", ["topo", "-m"])) if program else ()
        ):
            try:
                said = subprocess.run(
                    [program, *words], capture_output=True, text=True, errors="replace", timeout=30
                ).stdout
            except (OSError, subprocess.TimeoutExpired) as error:
                said = str(error)
            self.add("facts", what, "figure", note=said.strip()[-4000:])

    def sanitizer(self, limit):
        program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not self.gpu():
            return self.add("sanitizer", "three steps under compute-sanitizer", "must", None, "no GPU")
        if not os.access(program, os.X_OK):
            return self.add(
                "sanitizer", "three steps under compute-sanitizer", "figure", None, "compute-sanitizer is not installed"
            )
        command = [
            program,
            "--tool",
            "memcheck",
            "--error-exitcode",
            "9",
            self.options.program,
            "three-steps",
            "--brief",
            "--work",
            self.out / "work/three-steps",
            "--source",
            SOURCE,
        ]
        # Each tensor in memory of its own, so that what lies beside it is nobody's.
        code = self.run(
            "sanitizer", command, limit, "figure", {**self.environment, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        )
        text = (self.out / "sanitizer.txt").read_text(errors="replace")
        if "Device not supported" in text:
            return self.add(
                "sanitizer",
                "three steps under compute-sanitizer",
                "figure",
                None,
                "it does not know this machine's GPU",
            )
        if code is not None:
            clean = code == 0 and "ERROR SUMMARY: 0 errors" in text
            self.add(
                "sanitizer",
                "three steps under compute-sanitizer: no errors",
                "must",
                clean,
                "" if clean else text[-600:],
            )
        return None

    def geometric(self, limit):
        """PyTorch Geometric, or PyTorch alone where that is not installed, beside our steps on the same files."""
        device = "cuda" if self.gpu() else "cpu"
        command = [sys.executable, SOURCE / "bench/pyg_layout.py", "--data", self.out / "layouts", "--device", device]
        code = self.run(
            "pytorch", command + (["--steps", "2"] if self.options.brief else []), limit, "figure", dict(os.environ)
        )
        if code is None:
            return
        try:
            peers = [
                json.loads(line) for line in (self.out / "pytorch.txt").read_text().splitlines() if line.startswith("{")
            ]
        except ValueError:
            peers = []
        if code != 0 or not peers:
            return self.add("pytorch", "PyTorch beside it", "figure", None, self.end_of(self.out / "pytorch.txt"))
        for peer in peers:
            self.add(
                "pytorch",
                f"residual GCN 2 x 32: {peer['by']} on {device}",
                "figure",
                value=peer["ms_per_step"],
                unit="ms a step",
                note=peer["note"],
            )
        where = "GPU" if self.gpu() else "CPU, one thread"
        ours = [
            row["value"]
            for row in self.rows
            if row["check"] == "speed" and row["what"] == f"residual GCN 2 x 32: {where}"
        ]
        if not ours:
            return self.add("pytorch", RATIO, "target", None, "our own step was not timed")
        ratio = min(peer["ms_per_step"] for peer in peers) / ours[0]
        if self.gpu():
            return self.add(
                "pytorch", RATIO, "target", ratio >= AHEAD, value=ratio, limit=AHEAD, **{"is": "at least"}, unit=""
            )
        return self.add(
            "pytorch",
            "residual GCN 2 x 32: CPU, steps for one of PyTorch's",
            "figure",
            value=ratio,
            unit="",
            note="the target is of GPUs",
        )

    def gpu(self):
        return any(
            row["check"] == "facts" and row["what"] == "checked on" and row["note"] == "GPU" for row in self.rows
        )


def text_of(row):
    value = "" if row.get("value") is None else f"{row['value']:.4g} {row.get('unit', '')}".strip()
    limit = f"{row['is']} {row['limit']:.3g}" if "limit" in row else ""
    holds = {True: "yes", False: "NO", None: "-"}[row["holds"]]
    note = " ".join(str(row["note"]).split())
    return [row["check"], row["what"], value, limit, holds if row["kind"] != "figure" else "", note[:110]]


def table(rows):
    lines = [["check", "what", "found", "limit", "holds", "note"], *map(text_of, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    return "\n".join(
        "  ".join([*(word.ljust(width) for word, width in zip(line, widths)), line[5]]).rstrip() for line in lines
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=560, help="for all checks together")
    parser.add_argument("--patience", type=float, default=1, help="times each check's own limit, on slow machines")
    parser.add_argument("--brief", action="store_true", help="small and few: a test of the program")
    parser.add_argument("--copy", help="another folder for acceptance.json and table.txt")
    parser.add_argument("--only", help="checks, divided by commas")
    parser.add_argument("--mpirun", default=shutil.which("mpirun"))
    parser.add_argument("--libraries", help="LD_LIBRARY_PATH of the program")
    parser.add_argument(
        "--timed", nargs=2, action="append", default=[], metavar=("WHAT", "SECONDS"), help="a row of what came before"
    )
    parser.add_argument(
        "--broken",
        nargs=2,
        metavar=("WHAT", "LOG"),
        help="what came before failed: the result says so, and no check begins",
    )
    options = parser.parse_args()
    runner = Runner(options)
    for what, seconds in options.timed:
        runner.add(what, "seconds", "figure", value=float(seconds), unit="s")
    if options.broken:
        runner.add(options.broken[0], "failed", "must", False, runner.end_of(pathlib.Path(options.broken[1])))
        return conclude(runner, options)
    if not options.program:
        parser.error("--program is needed")
    # What must hold comes first: time may run out.
    steps = {
        "facts": runner.facts,
        "context": lambda: runner.check("context", 60),
        "models": lambda: runner.check("models", 120),
        "steps": lambda: runner.check("steps", 150),
        "trainings": lambda: runner.check("trainings", 60),
        "ranks": lambda: runner.check("ranks", 60, ranks=2),
        "nccl-refusal": lambda: runner.check("nccl-refusal", 60, ranks=2),
        "nccl-alone": lambda: runner.check("nccl-alone", 60),
        "sums": lambda: runner.check("sums", 60),
        "speed": lambda: runner.check("speed", 200, kind="figure"),
        "pytorch": lambda: runner.geometric(90),
        "sanitizer": lambda: runner.sanitizer(120),
    }
    only = options.only.split(",") if options.only else list(steps)
    if unknown := [name for name in only if name not in steps]:
        parser.error(f"--only: found {', '.join(unknown)}, expected some of {', '.join(steps)}")
    for name, step in steps.items():
        if name in only or name == "facts":
            step()
            save(runner, options)  # what is known so far, should the machine end all this
    return conclude(runner, options)


def save(runner, options):
    """Writes what was found so far to OUT, and to --copy as well; the summary."""
    must = [row for row in runner.rows if row["kind"] == "must"]
    targets = [row for row in runner.rows if row["kind"] == "target"]
    held, failed, unknown = ([row for row in must if row["holds"] is truth] for truth in (True, False, None))
    gpu = runner.gpu()
    # On a GPU nothing that must hold may go unseen.
    correct = not failed and bool(held) and not (gpu and unknown)
    summary = {
        "gpu": gpu,
        "correct": correct,
        "held": len(held),
        "failed": len(failed),
        "not_looked_at": len(unknown),
        "targets_reached": sum(row["holds"] is True for row in targets),
        "targets_missed": sum(row["holds"] is False for row in targets),
    }
    for folder in filter(None, (runner.out, options.copy)):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "acceptance.json").write_text(json.dumps({"summary": summary, "rows": runner.rows}, indent=1) + "\n")
        (folder / "table.txt").write_text(table(runner.rows) + "\n")
    return summary


def conclude(runner, options):
    """Writes and prints what was found; the exit code."""
    summary = save(runner, options)
    print(table(runner.rows))
    print(
        f"\n{'on a GPU' if summary['gpu'] else 'no GPU: on the CPU'}: {summary['held']} of what must hold does, {summary['failed']} does not, "
        f"{summary['not_looked_at']} could not be looked at; of the targets of speed {summary['targets_reached']} are reached, "
        f"{summary['targets_missed']} are not. {runner.out / 'acceptance.json'}"
    )
    return 1 if not summary["correct"] else 0 if summary["gpu"] or options.device == "cpu" else 3


if __name__ == "__main__":
    sys.exit(main())
