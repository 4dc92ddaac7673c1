"""Training, sweeps and trials from Python, over the program itself. FORETIME, FORETIME_LIBRARY and FORETIME_SOURCE_DIR name what is
tested."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from unittest import mock

import numpy as np

import declared_types

SOURCE = pathlib.Path(os.environ["FORETIME_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "python"))
os.environ["FORETIME_PROGRAM"] = os.environ["FORETIME"]

import foretime  # noqa: E402
from foretime.settings_file import flat, parse_settings  # noqa: E402

WATCH = declared_types.Watch(foretime)
unittest.addModuleCleanup(WATCH.end)

SETTINGS = {
    "data": {
        "format": "programs",
        "root": str(SOURCE / "samples/resnet18_conv2d"),
        "train": ["C1.npz", "C12.npz"],
        "holdout": 0.2,
        "max_eval_candidates": 20,
    },
    "model": {"type": "gcn", "hidden": 8, "readout": ["mean"], "features": {"transform": "zscore"}},
    "loss": {"type": "huber", "target": "log_runtime", "standardize_target": True},
    "sampler": {"groups_per_batch": 2, "candidates_per_group": 6, "samples_per_group": 4},
    "trainer": {
        "steps": 6,
        "eval_every": 3,
        "metric": "holdout/mae",
        "metric_goal": "minimize",
        "device": "cpu",
        "threads": 1,
    },
}
SWEEP = {
    "name": "widths",
    "settings": "base.yaml",
    "method": "grid",
    "metric": {"name": "holdout/mae", "goal": "minimize"},
    "parameters": {"model.hidden": {"values": [8, 12]}},
}
# A training script that knows nothing of Foretime's models: it fits a line, and dies once.
SCRIPT = """#!/usr/bin/python3
import os, pathlib, signal, sys
import numpy as np
import foretime

trial = foretime.Trial()
rate, steps = trial.settings["optimizer.learning_rate"], trial.settings["trainer.steps"]
x = np.linspace(-1, 1, 50)
weight = np.zeros(2)
if trial.resumed:
    weight = np.load(trial.resumed / "weight.npy")
metrics = {}
for step in range(trial.first_step + 1, steps + 1):
    error = weight[0] * x + weight[1] - (3 * x + 1)
    weight -= rate * np.array([(error * x).mean(), error.mean()])
    trial.report(step, total_steps=steps, loss=(error**2).mean())
    if step % 5 == 0:
        metrics = {"holdout/mae": float(abs(error).mean())}
        trial.evaluation(step, metrics)
        with trial.checkpoint(step) as folder:
            np.save(folder / "weight.npy", weight)
    marker = pathlib.Path(os.environ["MARKERS"]) / trial.directory.parent.name
    if step == 12 and rate > 0.5 and not marker.exists():
        marker.write_text("killed")
        os.kill(os.getpid(), signal.SIGKILL)
    trial.stop_if_asked()
print("from step", trial.first_step)
trial.finish(steps, metrics)
"""


# A training script of W&B's kind: arguments on its command line, a metric of its own, and Foretime's Trial in place of wandb.log.
PROGRAM = """
import argparse, os, pathlib, signal
import numpy as np
import foretime

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer.rate", dest="rate", type=float)
parser.add_argument("--shift", type=lambda text: {"True": True, "False": False}[text])
parser.add_argument("--steps", type=int)
options = parser.parse_args()
trial = foretime.Trial()
assert trial.settings == {"optimizer.rate": options.rate, "shift": options.shift, "steps": options.steps}, (trial.settings, options)
x, weight, loss = np.linspace(-1, 1, 50), np.zeros(2), 0.0
if trial.resumed:
    weight = np.load(trial.resumed / "weight.npy")
for step in range(trial.first_step + 1, options.steps + 1):
    error = weight[0] * x + weight[1] - (3 * x + options.shift)
    weight -= options.rate * np.array([(error * x).mean(), error.mean()])
    loss = float((error**2).mean())
    trial.report(step, total_steps=options.steps, loss=loss)
    if step % 5 == 0:
        trial.evaluation(step, {"val_loss": loss})
        with trial.checkpoint(step) as folder:
            np.save(folder / "weight.npy", weight)
    marker = pathlib.Path(os.environ["MARKERS"]) / "killed"
    if step == 12 and options.rate > 0.5 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    trial.stop_if_asked()
print("from step", trial.first_step)
trial.finish(options.steps, {"val_loss": loss})
"""
PROGRAM_SWEEP = """
program: fit.py
method: grid
project: lines
metric: {name: val_loss, goal: minimize}
parameters:
  optimizer:
    parameters:
      rate: {values: [0.9, 1e-3, 5e-4, 1e-4]}
  shift: {value: true}
early_terminate: {type: hyperband, min_iter: 2, eta: 2}
command: ["${env}", "${interpreter}", "${program}", "${args}"]
"""
# The same in C++.
CPP_PROGRAM = r"""
#include <csignal>
#include <foretime_trial.hpp>

int main() {
  foretime::Trial trial;
  const bool swept = trial.in_sweep();
  const double rate = swept ? trial.number("optimizer.rate") : std::atof(std::getenv("RATE"));
  const auto steps = static_cast<int64_t>(swept ? trial.number("steps") : 20);
  if (swept && trial.settings().at("name") != "a \"\xc3\xa9\"") return 2;
  double weight = 0, loss = 0;
  if (trial.resumed()) std::ifstream(*trial.resumed() / "weights") >> weight;
  for (int64_t step = trial.first_step() + 1; step <= steps; ++step) {
    const double error = weight - 3;
    weight -= rate * error;
    loss = error * error;
    trial.report(step, steps, loss, {{"error", error}});
    if (step % 5 == 0) {
      trial.evaluation(step, {{"val/loss", loss}});
      trial.checkpoint(step, [&](const std::filesystem::path& folder) { std::ofstream(folder / "weights") << weight; });
    }
    const auto marker = std::filesystem::path(std::getenv("MARKERS")) / "killed_cpp";
    if (swept && step == 12 && rate > 0.5 && !std::filesystem::exists(marker)) {
      std::ofstream(marker).close();
      std::raise(SIGKILL);
    }
    trial.stop_if_asked();
  }
  std::printf("from step %lld\n", static_cast<long long>(trial.first_step()));
  trial.finish(steps, {{"val/loss", loss}});
}
"""


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        os.environ.pop("FORETIME_REDIS", None)
        (self.folder / "base.yaml").write_text(json.dumps(SETTINGS))


class TrialByHand(Folder):
    """foretime.Trial in a script that nobody swept."""

    SCRIPT = """
import foretime, sys
trial = foretime.Trial()
print("rate", trial.settings["optimizer.rate"] * 2, trial.settings["names"], trial.settings["flag"], "numpy" in sys.modules)
trial.evaluation(1, {"loss": 0.5, "note": "text", "flag": True})
trial.finish(2, {"loss": float("nan"), "note": "text"})
print(trial.settings["missing"])
"""

    def by_hand(self, *options):
        (self.folder / "fit.py").write_text(self.SCRIPT)
        return subprocess.run(
            [sys.executable, *options, "fit.py", "--optimizer.rate=0.25", "names=['a', 1]", "--flag=False"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE / "python")},
        )

    def test_its_settings_are_its_arguments(self):
        done = self.by_hand()
        lines = done.stdout.splitlines()
        self.assertTrue(lines[0].startswith("rate 0.5 ['a', 1] False"), done.stderr)
        self.assertEqual([json.loads(line)["metrics"] for line in lines[1:]], [{"loss": 0.5}, {"loss": None}])
        self.assertEqual(done.stderr.count("foretime: note: left out: 'text': expected a number"), 1)
        self.assertIn("missing: not among the settings; by hand give it as --missing=VALUE", done.stderr)

    def test_it_needs_no_numpy(self):
        (self.folder / "numpy.py").write_text("raise ModuleNotFoundError('numpy', name='numpy')\n")
        done = self.by_hand()
        self.assertTrue(done.stdout.startswith("rate 0.5 ['a', 1] False False\n"), done.stderr)
        asked = subprocess.run(
            [sys.executable, "-c", "import foretime; foretime.open"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{self.folder}:{SOURCE / 'python'}"},
        )
        self.assertIn("foretime.open needs numpy", asked.stderr)


class Training(Folder):
    def test_trains_reads_and_exports_a_run(self):
        run = foretime.train(
            SETTINGS, {"run.directory": "runs/a"}, trainer={"steps": 7}, optimizer={"learning_rate": 3e-4}
        )
        self.assertEqual(run.path, pathlib.Path("runs/a"))
        settings = run.settings
        self.assertEqual((settings["trainer"]["steps"], settings["optimizer"]["learning_rate"]), (7, 3e-4))
        self.assertEqual(
            settings["data"]["train"],
            [str(SOURCE / "samples/resnet18_conv2d" / name) for name in ("C1.npz", "C12.npz")]
            if settings["data"]["train"][0].startswith("/")
            else ["C1.npz", "C12.npz"],
        )
        evaluations = run.metrics("eval")
        self.assertEqual(evaluations["step"].tolist()[-1], 7)
        lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len(run.metrics()["kind"]), len(lines))
        self.assertEqual(run.metrics("final")["holdout/mae"][0], lines[-1]["holdout/mae"])
        rankings = run.rankings()
        self.assertEqual(set(rankings["group"]), {"C1", "C12"})
        self.assertEqual(rankings["score"].dtype, np.float64)
        if importlib.util.find_spec("pandas"):
            frame = rankings.to_pandas()
            self.assertEqual(list(frame.columns), list(rankings))
            self.assertEqual(frame["score"].tolist(), rankings["score"].tolist())
        weights = run.weights("last")
        self.assertIn(7, run.checkpoints)
        self.assertGreater(sum(tensor.size for tensor in weights.values()), 100)
        self.assertTrue(all(np.isfinite(tensor).all() for tensor in weights.values() if tensor.dtype.kind == "f"))
        self.assertNotIn("torch", sys.modules)
        # A bundle of it scores as the program does.
        model = foretime.open(run.export("a.foretime"))
        group = model.read(SOURCE / "samples/resnet18_conv2d/C3.npz")[0]
        self.assertTrue(np.isfinite(model.score(group)).all())
        # The same call with more steps continues.
        again = foretime.train(
            SETTINGS, {"run.directory": "runs/a", "trainer.steps": 9, "optimizer.learning_rate": 3e-4}
        )
        self.assertEqual(again.checkpoints[-1], 9)

    def test_takes_numbers_of_numpy(self):
        settings = {
            **SETTINGS,
            "model": {**SETTINGS["model"], "hidden": np.int64(8), "dropout": np.float32(0.5)},
            "trainer": {**SETTINGS["trainer"], "steps": np.int32(2)},
        }
        run = foretime.train(
            settings,
            {
                "run.directory": "runs/numpy",
                "optimizer.learning_rate": np.float64(1e-3),
                "data.targets": np.array([], str),
            },
        )
        self.assertEqual(
            (run.settings["model"]["hidden"], run.settings["model"]["dropout"], run.settings["trainer"]["steps"]),
            (8, 0.5, 2),
        )
        with self.assertRaises(foretime.CommandError) as caught:
            foretime.train({**SETTINGS, "model": {"hidden": "many"}})
        self.assertTrue(caught.exception.message.startswith("settings:1: "), caught.exception.message)

    def test_shows_its_progress(self):
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            foretime.train(SETTINGS, {"run.directory": "runs/quiet"})
        self.assertEqual(told.getvalue(), "", "nobody watches a file")
        with contextlib.redirect_stderr(told):
            foretime.train(SETTINGS, {"run.directory": "runs/shown"}, progress=True)
        lines = told.getvalue().rstrip("\n").split("\r")
        self.assertRegex(lines[1], r"^gcn: +step 1/6 +loss ", "at the first step")
        self.assertRegex(lines[-1], r"^gcn: +step 6/6 +loss ")
        with contextlib.redirect_stderr(told):
            foretime.train(SETTINGS, {"run.directory": "runs/shown"}, progress=True)
        self.assertIn("already at step 6 of 6", told.getvalue())
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            foretime.train(SETTINGS, {"run.directory": "runs/echo"}, echo=True)
        self.assertIn("run directory: runs/echo", printed.getvalue())

    def test_names_the_kinds_of_metrics(self):
        run = foretime.train(SETTINGS, {"run.directory": "runs/kinds"})
        with self.assertRaisesRegex(ValueError, "kind: 'trainn', expected one of train, eval, final"):
            run.metrics("trainn")
        with self.assertRaisesRegex(
            foretime.ForetimeError, r'found a run directory, expected a bundle.*foretime.Run\("runs/kinds"\).export'
        ):
            foretime.open(run.path)
        table = run.metrics("final")
        self.assertIn("<th>holdout/mae</th>", table._repr_html_())
        self.assertIn(f"<td>{table['holdout/mae'][0]:.4g}</td>", table._repr_html_())
        self.assertEqual(repr(foretime.Queue(runs="runs")), "<foretime.Queue --runs runs>")

    def test_several_ranks_without_variables_of_mpi(self):
        """Open MPI refuses to start as root, as in containers, where nobody has set two variables."""
        with mock.patch.dict(os.environ):
            for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
                os.environ.pop(name, None)
            run = foretime.train(SETTINGS, {"run.directory": "runs/two"}, ranks=2, trainer={"steps": 2})
            self.assertNotIn("OMPI_ALLOW_RUN_AS_ROOT", os.environ)
        self.assertEqual(run.checkpoints[-1], 2)
        self.assertEqual(json.loads((run.path / "environment.json").read_text())["ranks"], 2)

    def test_says_what_is_wrong(self):
        with self.assertRaises(foretime.CommandError) as caught:
            foretime.train(SETTINGS, trainer={"stepz": 3})
        self.assertEqual(caught.exception.exit_code, 2)
        self.assertIn("trainer.steps", caught.exception.message)
        with self.assertRaisesRegex(TypeError, "trainer.steps: set, expected"):
            foretime.train(SETTINGS, {"trainer.steps": {3}})
        with self.assertRaisesRegex(ValueError, "expected a finite number"):
            foretime.train(SETTINGS, {"optimizer.learning_rate": float("nan")})
        with self.assertRaisesRegex(FileNotFoundError, "no run directory"):
            foretime.Run("nowhere")
        os.environ["FORETIME_PROGRAM"] = "/nowhere/foretime"
        self.addCleanup(os.environ.__setitem__, "FORETIME_PROGRAM", os.environ["FORETIME"])
        with self.assertRaisesRegex(FileNotFoundError, "FORETIME_PROGRAM: /nowhere/foretime"):
            foretime.Queue()

    def test_reads_all_settings_that_foretime_prints(self):
        printed = subprocess.run(
            [
                os.environ["FORETIME"],
                "config",
                "base.yaml",
                'data.train=["a, b.npz",\'c"d.npz\']',
                'data.test=["' + "x" * 150 + '"]',
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        settings = flat(parse_settings(printed))
        self.assertEqual(settings["data.train"], ["a, b.npz", 'c"d.npz'])
        self.assertEqual(settings["data.test"], ["x" * 150])
        self.assertIs(settings["loss.standardize_target"], True)
        self.assertEqual(settings["data.eval_indices"], "")
        # Given back, they are the same settings.
        again = subprocess.run(
            [os.environ["FORETIME"], "config", "back.yaml"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            input=(self.folder / "back.yaml").write_text(json.dumps(parse_settings(printed))) and "",
        ).stdout
        self.assertEqual(again, printed)


class Jobs(Folder):
    def test_a_sweep_from_begin_to_end(self):
        trials = foretime.sweep(SWEEP, runs="runs", cpus=2, data_root=SOURCE / "samples")
        self.assertEqual(sorted(trials["model.hidden"].tolist()), [8, 12])
        self.assertEqual(trials["state"].tolist(), ["succeeded", "succeeded"])
        self.assertEqual(trials["value"].tolist(), sorted(trials["value"].tolist()))
        queue = foretime.Queue(runs="runs")
        job = str(trials["job"][0])
        steps, values = queue.history(job)["loss"]
        self.assertEqual((steps.tolist(), values.dtype), ([6], np.float64))
        self.assertTrue(any("6" in line for line in queue.log(job)))
        self.assertEqual(queue.run(job).checkpoints, [3, 6])
        self.assertEqual(queue.leaderboard()["metric"], "holdout/mae")
        with self.assertRaisesRegex(
            foretime.CommandError, "no trial of 2 succeeded.* lies outside of the agent's roots"
        ):
            foretime.sweep({**SWEEP, "seed": 2}, runs="elsewhere", cpus=1)

    def test_submit_wait_and_cancel(self):
        queue = foretime.Queue(runs="runs")
        checked = queue.submit(SWEEP, dry_run=True)
        self.assertEqual(len(checked["jobs"]), 2)
        submitted = queue.submit("base.yaml", trainer={"steps": 4}, name="one", priority=3)
        job = submitted["jobs"][0]["id"]
        self.assertEqual([found["state"] for found in queue.jobs(job)], ["waiting"])
        with self.assertRaisesRegex(TimeoutError, f"1 of 1 jobs have not ended after 0 s, the first: {job} is waiting"):
            queue.wait(job, timeout=0)
        sweep = queue.submit({**SWEEP, "name": "second"})["sweep"]
        queue.cancel(sweep)
        self.assertEqual({found["state"] for found in queue.wait(sweep, timeout=1200)}, {"cancelled"})
        agent = queue.agent(cpus=1, data_root=SOURCE / "samples")
        self.assertEqual([found["state"] for found in queue.wait(job, timeout=1200, poll=0.2)], ["succeeded"])
        self.assertEqual(agent.wait(), 0)
        with self.assertRaises(foretime.CommandError) as caught:
            queue.submit({**SWEEP, "metod": "grid"})
        self.assertIn("method", caught.exception.message)
        with self.assertRaises(ValueError):
            queue.wait()

    def test_any_script_is_a_trial(self):
        script = self.folder / "fit.py"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        sweep = {
            "name": "fit",
            "settings": "base.yaml",
            "method": "grid",
            "metric": {"name": "holdout/mae", "goal": "minimize"},
            "parameters": {"optimizer.learning_rate": {"values": [0.9, 0.001, 0.0005, 0.0001]}},
            "overrides": {"trainer.steps": 20},
            "early_terminate": {"type": "hyperband", "min_iter": 2, "eta": 2},
        }
        queue = foretime.Queue(runs="runs")
        submitted = queue.submit(sweep)
        os.environ.update(PYTHONPATH=str(SOURCE / "python"), MARKERS=str(self.folder))
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        with open("agent.log", "w") as log:
            agent = queue.agent(
                "--retry-seconds",
                "0.1",
                "--program",
                str(script),
                "--jobs",
                "1",
                data_root=SOURCE / "samples",
                output=log,
            )
            jobs = queue.wait(submitted["sweep"], timeout=1200, poll=0.2)
            self.assertEqual(agent.wait(), 0, (self.folder / "agent.log").read_text())
        by_rate = {float(job["parameters"]["optimizer.learning_rate"]): job for job in jobs}
        best = by_rate[0.9]
        # Killed once, and went on.
        self.assertEqual((best["state"], best["failures"], best["step"]), ("succeeded", 1, 20))
        self.assertIn("from step 10", queue.log(best["id"])[-1] + " ".join(queue.log(best["id"])))
        self.assertLess(best["metrics"]["holdout/mae"], 0.5)
        self.assertTrue(any(job["stopped"] for job in jobs), jobs)  # early stopping
        self.assertEqual(queue.trials()["job"][0], best["id"])

    def test_a_sweep_file_of_wandb_runs_a_program(self):
        (self.folder / "fit.py").write_text(PROGRAM)
        (self.folder / "sweep.yaml").write_text(PROGRAM_SWEEP)
        before = os.environ["PATH"]  # ${interpreter} is the first python3 in it
        os.environ.update(
            PYTHONPATH=str(SOURCE / "python"),
            MARKERS=str(self.folder),
            PATH=f"{pathlib.Path(sys.executable).parent}:{before}",
        )
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        queue = foretime.Queue(runs="runs")
        submitted = queue.submit("sweep.yaml", {"steps": 20})
        with open("agent.log", "w") as log:  # an agent that runs no programs leaves them to others, and says what to do
            queue.agent(cpus=1, output=log).wait()
        self.assertEqual({(job["state"], job["attempt"]) for job in queue.jobs(submitted["sweep"])}, {("waiting", 0)})
        self.assertIn("start an agent with --programs FOLDER", (self.folder / "agent.log").read_text())
        with open("agent.log", "w") as log:
            agent = queue.agent("--retry-seconds", "0.1", "--jobs", "1", programs_in=".", output=log)
            jobs = queue.wait(submitted["sweep"], timeout=1200, poll=0.2)
            self.assertEqual(agent.wait(), 0, (self.folder / "agent.log").read_text())
        by_rate = {float(job["parameters"]["optimizer.rate"]): job for job in jobs}
        best = by_rate[0.9]
        self.assertEqual((best["state"], best["step"]), ("succeeded", 20), best)  # killed by SIGKILL once, and went on
        self.assertTrue((self.folder / "killed").exists())
        self.assertIn("from step 10", " ".join(queue.log(best["id"])))
        self.assertEqual(set(best["metrics"]), {"val_loss"})
        self.assertTrue(any(job["stopped"] for job in jobs), jobs)  # early stopping
        trials = queue.trials()
        self.assertEqual(trials["job"][0], best["id"])
        self.assertEqual(trials["value"].tolist(), sorted(trials["value"].tolist()))
        self.assertEqual(trials["optimizer.rate"][0], 0.9)
        history = queue.history(best["id"])  # of both attempts, whole
        self.assertEqual(
            {name: steps.tolist() for name, (steps, _) in history.items()},
            {"loss": list(range(1, 21)), "val_loss": [5, 10, 15, 20]},
        )

    def test_a_program_in_cpp_is_a_trial(self):
        (self.folder / "fit.cpp").write_text(CPP_PROGRAM)
        subprocess.run(
            [
                "c++",
                "-std=c++17",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                f"-I{SOURCE / 'inference/capi'}",
                "fit.cpp",
                "-o",
                "fit",
            ],
            check=True,
        )
        sweep = {
            "name": "lines",
            "program": "fit",
            "method": "grid",
            "metric": {"name": "val/loss", "goal": "minimize"},
            "parameters": {
                "optimizer": {"parameters": {"rate": {"values": [0.9, 1e-3, 5e-4, 1e-4]}}},
                "steps": {"value": 20},
                "name": {"value": 'a "\u00e9"'},
            },
            "early_terminate": {"type": "hyperband", "min_iter": 2, "eta": 2},
            "command": ["${program}"],
        }
        os.environ["MARKERS"] = str(self.folder)
        queue = foretime.Queue(runs="runs")
        submitted = queue.submit(sweep)
        with open("agent.log", "w") as log:
            agent = queue.agent("--retry-seconds", "0.1", "--jobs", "1", programs_in=".", output=log)
            jobs = queue.wait(submitted["sweep"], timeout=1200, poll=0.2)
            self.assertEqual(agent.wait(), 0, (self.folder / "agent.log").read_text())
        best = {float(job["parameters"]["optimizer.rate"]): job for job in jobs}[0.9]
        # Killed once, and went on.
        self.assertEqual((best["state"], best["failures"], best["step"]), ("succeeded", 1, 20), best)
        self.assertIn("from step 10", " ".join(queue.log(best["id"])))
        self.assertLess(best["metrics"]["val/loss"], 0.1)
        self.assertTrue(any(job["stopped"] for job in jobs), jobs)  # early stopping
        history = queue.history(best["id"])
        self.assertEqual(
            {name: steps.tolist() for name, (steps, _) in history.items()},
            {"loss": list(range(1, 21)), "error": list(range(1, 21)), "val/loss": [5, 10, 15, 20]},
        )
        self.assertEqual(history["loss"][1][0], 9.0)
        # Its checkpoints are those of foretime.Trial.
        run = queue.run(best["id"])
        self.assertEqual(run.checkpoints[-1], 20)
        self.assertEqual((run.settings["optimizer"]["rate"], run.settings["name"]), (0.9, 'a "\u00e9"'))
        self.assertEqual(run.metrics("eval")["step"].tolist(), [15, 20])
        manifest = json.loads((run.checkpoint("last") / "manifest.json").read_text())
        content = (run.checkpoint("last") / "weights").read_bytes()
        self.assertEqual(manifest["files"], {"weights": {"bytes": len(content), "crc32": zlib.crc32(content)}})
        # By hand, a checkpoint that is damaged, or that was being written, is told or left.
        environment = {**os.environ, "RATE": "0.5"}
        for first in (0, 20):
            done = subprocess.run(["./fit"], env=environment, check=True, stdout=subprocess.PIPE, text=True)
            self.assertIn(f"from step {first}", done.stdout)
        self.assertEqual(
            json.loads(done.stdout.splitlines()[-1]), {"type": "result", "step": 20, "metrics": {"val/loss": 0.0}}
        )
        (self.folder / "runs/trial/checkpoints/step-00000030.writing").mkdir()
        (self.folder / "runs/trial/checkpoints/step-00000030.writing/manifest.json").write_text("{")
        self.assertIn(
            "from step 20",
            subprocess.run(["./fit"], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout,
        )
        (self.folder / "runs/trial/checkpoints/step-00000020/manifest.json").write_text("{")
        self.assertNotEqual(
            subprocess.run(
                ["./fit"], env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ).returncode,
            0,
        )

    def test_a_trial_runs_by_hand_too(self):
        (self.folder / "fit.py").write_text(SCRIPT)
        settings = {"optimizer": {"learning_rate": 0.1}, "trainer": {"steps": 6}, "run": {"directory": "runs/by-hand"}}
        text = "".join(
            f"{section}:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items())
            for section, values in settings.items()
        )
        (self.folder / "hand.yaml").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "MARKERS": str(self.folder)}
        for first in (0, 5):  # the second time it continues
            done = subprocess.run(
                [sys.executable, "fit.py", "hand.yaml"], env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            self.assertIn(f"from step {first}", done.stdout)
        self.assertIn('"type": "result"', done.stdout)
        # What a killed attempt was writing is no checkpoint.
        (self.folder / "runs/by-hand/checkpoints/step-00000006.writing").mkdir()
        (self.folder / "runs/by-hand/checkpoints/step-00000006.writing/manifest.json").write_text('{"files": {"wei')
        done = subprocess.run(
            [sys.executable, "fit.py", "hand.yaml"], env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        self.assertIn("from step 5", done.stdout)
        (self.folder / "runs/by-hand/config.yaml").touch()
        self.assertEqual(foretime.Run("runs/by-hand").checkpoints, [5])
        shutil.rmtree(self.folder / "runs/by-hand/checkpoints/step-00000006.writing")
        self.assertEqual(
            [path.name for path in (self.folder / "runs/by-hand/checkpoints").iterdir()], ["step-00000005"]
        )


if __name__ == "__main__":
    unittest.main()
