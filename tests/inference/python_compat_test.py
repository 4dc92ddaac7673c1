"""The modules that carry calls of W&B, Optuna, MLflow and Lightning: scripts that import them report to an agent, or by hand write a run
folder. FORETIME and FORETIME_SOURCE_DIR name what is tested; no network and none of those packages is needed."""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

SOURCE = pathlib.Path(os.environ["FORETIME_SOURCE_DIR"])
PACKAGE = SOURCE / "inference" / "python"
COMPAT = PACKAGE / "foretime" / "compat"
sys.path.insert(0, str(PACKAGE))
os.environ["FORETIME_PROGRAM"] = os.environ["FORETIME"]

import foretime  # noqa: E402
from foretime.ignored import Ignored  # noqa: E402
from foretime.logged_run import flat_items, number_of  # noqa: E402

LIMIT = 1200


class Agent:
    """The agent's end of a trial's channel: collects messages, and asks to stop after one that `stops` accepts."""

    def __init__(self, path, stops=None):
        self.messages, self._stops, self._path = [], stops, str(path)
        self._readers, self._ended = [], threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                channel, _ = self._socket.accept()
            except OSError:
                return
            self._readers.append(threading.Thread(target=self._read, args=(channel,), daemon=True))
            self._readers[-1].start()

    def _read(self, channel):
        with channel, channel.makefile("rb") as lines, contextlib.suppress(ConnectionResetError):  # it leaves a request to stop unread
            for line in lines:
                message = json.loads(line)
                if message["type"] == "end":
                    self._ended.set()
                    return
                self.messages.append(message)
                if self._stops is not None and self._stops(message):
                    self._stops = None  # once: the trial may end after that, and leave a second request unread
                    channel.sendall(b'{"stop": true, "reason": "early stopping"}\n')

    def finish(self):
        """Reads what the trial sent before its end: connections are accepted in their order, so this one is the last."""
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self._path)
            last.sendall(b'{"type": "end"}\n')
            self._ended.wait(LIMIT)
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for reader in self._readers:
            reader.join(LIMIT)

    def of(self, kind):
        return [message for message in self.messages if message["type"] == kind]

    @property
    def result(self):
        """The metrics of the last result; None without one."""
        results = self.of("result")
        return results[-1]["metrics"] if results else None


class Scripts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.modules = self.folder / "modules"  # stand-ins, before everything else
        self.modules.mkdir()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def run_script(self, text, *words, code=0, **environment):
        self.write("train.py", text)
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "FORETIME_", "MLFLOW"))}
        done = subprocess.run([sys.executable, "train.py", *words], cwd=self.folder, capture_output=True, text=True, check=False, timeout=LIMIT,
                              env={**plain, "PYTHONPATH": f"{self.modules}{os.pathsep}{COMPAT}", "PYTHONDONTWRITEBYTECODE": "1",
                                   "FORETIME_PROGRAM": os.environ["FORETIME"], **environment})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def trial(self, text, *words, parameters=None, metric="val/loss", stops=None, attempt=1, code=0, **environment):
        """Runs a script as an agent does. Returns the agent, and the process."""
        directory = self.folder / "runs" / "job" / f"attempt-{attempt}"
        directory.mkdir(parents=True)
        told = {"job": "job", "trial": 3, "parameters": parameters or {}, "directory": str(directory), "resume": None, "sweep": "sweep",
                "metric": metric, "goal": "minimize"}
        (directory / "trial.json").write_text(json.dumps(told))
        agent = Agent(directory / "agent", stops)
        agent.directory = directory
        try:
            done = self.run_script(text, *words, code=code, FORETIME_TRIAL=str(directory / "trial.json"), FORETIME_PROGRESS=str(directory / "agent"),
                                   **environment)
        finally:
            agent.finish()
        return agent, done

    def rows(self, directory):
        return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]

    def by_hand(self):
        """The only run folder of a script that ran by hand."""
        (folder,) = [path for path in (self.folder / "runs").iterdir() if not path.name.startswith(".")]
        return folder


class WandbInATrial(Scripts):
    def test_config_takes_the_sweeps_parameters(self):
        _, done = self.trial("""
            import argparse, copy, json, os
            import wandb
            assert os.environ["WANDB_SWEEP_ID"] == "sweep"
            run = wandb.init(project="p", config={"lr": 9, "epochs": 3, "optimizer": {"momentum": 1}})
            config = wandb.config
            print(json.dumps([config.lr, config["lr"], config.get("lr"), config.get("none", 5), config.epochs, config.optimizer, "lr" in config,
                              sorted(config.keys()), dict(config) == {**config} == config.as_dict() == dict(copy.deepcopy(config))]))
            config.update({"lr": 7, "batch": 4})
            config.update(argparse.Namespace(seed=1))
            config.setdefaults({"seed": 2, "width": 8})
            config.depth = 2
            config["depth"] = 2
            print(json.dumps(config.as_dict()))
            for change in (lambda: config.update({"batch": 5}), lambda: setattr(config, "depth", 3)):
                try:
                    change()
                except wandb.errors.ConfigError as error:
                    print("refused", str(error).splitlines()[0])
            config.update({"batch": 5}, allow_val_change=True)
            print(config.batch, run.sweep_id, run.id, wandb.run is run, wandb.init() is run)
            try:
                config.none
            except AttributeError as error:
                print(error)
            """, parameters={"lr": 0.5, "optimizer": {"kind": "adam"}})
        lines = done.stdout.splitlines()
        self.assertEqual(json.loads(lines[0]), [0.5, 0.5, 0.5, 5, 3, {"kind": "adam"}, True, ["epochs", "lr", "optimizer"], True])
        self.assertEqual(json.loads(lines[1]), {"lr": 0.5, "optimizer": {"kind": "adam"}, "epochs": 3, "batch": 4, "seed": 1, "width": 8, "depth": 2})
        self.assertRegex(lines[2] + lines[3], "refused.*'batch' from 4 to 5.*refused.*'depth' from 2 to 3")
        self.assertEqual(lines[4], "5 sweep job True True")
        self.assertIn("config has no parameter 'none'", lines[5])
        self.assertEqual(done.stderr.count("config: lr: the sweep chose 0.5, which 7 does not replace"), 1, "defaults lose without a word")

    def test_rows_with_the_metric_are_evaluations(self):
        agent, _ = self.trial("""
            import wandb
            run = wandb.init()
            for epoch in range(3):
                wandb.log({"train": {"loss": 1 / (epoch + 1)}, "note": "text"})
                wandb.log({"val/loss": 3 - epoch, "flag": True, "nan": float("nan")})
            wandb.summary["best"] = 1
            run.summary.other = 2
            wandb.summary.update({"text": "x"})
            wandb.finish()
            """)
        self.assertEqual([(one["step"], one["values"]) for one in agent.of("progress")], [(0, {"train.loss": 1.0}), (2, {"train.loss": 0.5}), (4, {"train.loss": 1 / 3})])
        self.assertEqual([(one["step"], one["iteration"], one["metrics"]["val/loss"]) for one in agent.of("evaluation")], [(1, 1, 3), (3, 2, 2), (5, 3, 1)])
        self.assertEqual(agent.result, {"train.loss": 1 / 3, "val/loss": 1, "flag": 1, "nan": None, "best": 1, "other": 2})
        self.assertEqual([row["kind"] for row in self.rows(agent.directory)], ["train", "eval"] * 3 + ["final"])

    def test_steps_are_those_of_wandb(self):
        agent, done = self.trial("""
            import wandb
            run = wandb.init()
            run.log({"a": 1}, step=5)
            run.log({"val/loss": 2}, step=5)
            print(run.step)
            run.log({"a": 2}, step=3)               # behind: left out
            run.log({"a": 3}, step=9, commit=True)
            run.log({"a": 4}, commit=False)
            run.log({"b": 5})
            run.log({"last": 6}, commit=False)      # the end commits it to the summary
            print(run.step)
            """)
        self.assertEqual([(row["step"], {key: value for key, value in row.items() if key not in ("kind", "step")}) for row in self.rows(agent.directory)],
                         [(5, {"a": 1, "val/loss": 2}), (9, {"a": 3}), (10, {"a": 4, "b": 5}), (10, {"a": 4, "val/loss": 2, "b": 5, "last": 6})])
        self.assertEqual(done.stdout.split(), ["5", "11"])
        self.assertIn("step 3 is behind step 5", done.stderr)

    def test_a_smaller_step_does_not_take_back_the_curves(self):
        agent, _ = self.trial("""
            import mlflow
            with mlflow.start_run():
                for name in ("loss", "accuracy"):
                    for epoch in range(3):
                        mlflow.log_metric(name, epoch, step=epoch)
            """)
        steps = [row["step"] for row in self.rows(agent.directory)]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(len({(row["step"], name) for row in self.rows(agent.directory)[:-1] for name in row if name not in ("kind", "step")}), 6)

    def test_define_metric_chooses_the_result(self):
        agent, done = self.trial("""
            import wandb
            run = wandb.init()
            wandb.define_metric("epoch")
            wandb.define_metric("val/*", step_metric="epoch", summary="min")
            run.define_metric("accuracy", summary="max,mean")
            run.define_metric("best", summary="best", goal="maximize")
            run.define_metric("hidden", summary="none")
            for epoch, value in enumerate([3.0, 1.0, 2.0]):
                wandb.log({"val/loss": value, "accuracy": value, "best": value, "hidden": value, "last": value, "epoch": epoch})
            print(run.summary["val/loss"]["min"], dict(run.summary["accuracy"]))
            try:
                run.define_metric("x", summary="least")
            except wandb.UsageError as error:
                print(error)
            """)
        self.assertEqual(agent.result, {"val/loss": 1.0, "val/loss.min": 1.0, "accuracy": 3.0, "accuracy.max": 3.0, "accuracy.mean": 2.0, "best": 3.0,
                                        "best.best": 3.0, "last": 2.0, "epoch": 2})
        self.assertIn("1.0 {'max': 3.0, 'mean': 2.0}", done.stdout)
        self.assertIn("found 'least', expected some of min, max", done.stdout)

    def test_what_is_no_number_is_kept_as_files_and_told_once(self):
        agent, done = self.trial("""
            import numpy as np
            import wandb
            from wandb.data_types import Table
            open("weights.txt", "w").write("w")
            run = wandb.init()
            table = wandb.Table(columns=["a", "b"])
            table.add_data(1, wandb.Html("<b>x</b>"))
            assert Table is wandb.Table
            wandb.log({"val/loss": np.float32(0.5), "table": table, "text": "hello", "pictures": [wandb.Image(np.zeros((4, 4)), caption="c")] * 2,
                       "histogram": wandb.Histogram(np.arange(4)), "array": np.arange(3), "one": np.array([7])})
            wandb.log({"chart": wandb.plot.confusion_matrix(y_true=[0], preds=[1])})
            artifact = wandb.Artifact("model", type="model")
            artifact.add_file("weights.txt")
            run.log_artifact(artifact, aliases=["best"])
            print(run.use_artifact("e/p/model:latest").file())
            wandb.save("weights.txt")
            wandb.watch(None)
            wandb.alert("title", "text")
            try:
                wandb.use_artifact("other:v0")
            except wandb.errors.CommError as error:
                print(error)
            """)
        files = agent.directory / "files"
        self.assertEqual(agent.result, {"val/loss": 0.5, "one": 7})
        self.assertEqual((files / "weights.txt").read_text(), "w")
        self.assertEqual((files / "artifacts/model/weights.txt").read_text(), "w")
        self.assertEqual(json.loads((files / "media/table-0.json").read_text()), {"columns": ["a", "b"], "data": [[1, "table-0-0-1.html"]]})
        media = {path.name.partition("-")[0] for path in (files / "media").iterdir()}
        self.assertEqual(media, {"table", "pictures", "histogram", "array", "chart"})
        self.assertIn('"text": "hello"', (files / "texts.jsonl").read_text())
        self.assertEqual(done.stderr.count("are no numbers: kept as files in"), 1)
        self.assertIn("other:v0: not in", done.stdout)

    def test_ends_when_the_agent_asks_for_it(self):
        agent, done = self.trial("""
            import time
            import wandb
            wandb.init()
            wandb.define_metric("val/loss", summary="min")
            for epoch in range(100000):
                wandb.log({"val/loss": 1 / (epoch + 1)})
                time.sleep(0.01)
            """, stops=lambda message: message["type"] == "evaluation" and message["iteration"] == 3, code=75)
        self.assertLessEqual(agent.result["val/loss"], 1 / 3)
        self.assertIn("stops: early stopping", done.stdout)

    def test_a_run_that_failed_leaves_no_result(self):
        agent, done = self.trial("import wandb\nwandb.init()\nwandb.log({'val/loss': 1})\nraise ValueError('diverged')\n", code=1)
        self.assertIsNone(agent.result)
        self.assertIn("diverged", done.stderr)
        agent, _ = self.trial("import wandb\nwith wandb.init():\n    wandb.log({'val/loss': 1})\n    raise ValueError\n", code=1, attempt=2)
        self.assertIsNone(agent.result)
        agent, _ = self.trial("import wandb\nwandb.init()\nwandb.log({'val/loss': 1})\nwandb.finish(exit_code=1)\n", code=70, attempt=3)
        self.assertIsNone(agent.result)

    def test_many_numbers_and_many_rows(self):
        agent, done = self.trial("""
            import wandb
            wandb.init()
            wandb.log({**{f"gradients/{i}": i for i in range(1000)}, "val/loss": 1})
            for step in range(3000):
                wandb.log({"loss": step})
            """)
        self.assertEqual(agent.of("evaluation")[0]["metrics"]["val/loss"], 1)
        self.assertLess(len(agent.of("progress")), 1500, "messages of one name have an interval")
        self.assertEqual(agent.of("progress")[-1]["values"], {"loss": 2999})
        self.assertEqual(len(self.rows(agent.directory)), 3002)
        self.assertEqual(done.stderr.count("numbers in one row"), 1)

    def test_one_process_of_a_trial_reports(self):
        agent, _ = self.trial("""
            import multiprocessing
            import wandb

            def fold(number):
                with wandb.init(name=f"fold-{number}", group="folds") as run:
                    run.log({"val/loss": number})

            if __name__ == "__main__":
                run = wandb.init()
                for number in range(2):
                    process = multiprocessing.get_context("fork").Process(target=fold, args=(number,))
                    process.start()
                    process.join()
                run.log({"val/loss": 0.5})
                wandb.finish()
                with wandb.init() as second:        # a later run of the process adds to the trial
                    second.log({"test": 4})
            """)
        self.assertEqual(len(agent.of("hello")), 1)
        self.assertEqual(agent.result, {"val/loss": 0.5, "test": 4})
        self.assertEqual(len(list(agent.directory.glob("processes/*/metrics.jsonl"))), 2)
        agent, _ = self.trial("import wandb\nwandb.init()\nwandb.log({'val/loss': 1})\n", RANK="1", attempt=2)
        self.assertEqual(agent.messages, [])
        self.assertTrue((agent.directory / "processes/rank-1/metrics.jsonl").exists())

    def test_a_later_attempt_restores_what_an_earlier_one_saved(self):
        script = """
            import wandb
            run = wandb.init(resume="allow")
            if run.resumed:
                print("from", wandb.restore("state.txt").read(), run.step)
            else:
                open("state.txt", "w").write("5")
                wandb.save("state.txt")
            wandb.log({"val/loss": 1})
            """
        self.trial(script)
        _, done = self.trial(script, attempt=2)
        self.assertEqual(done.stdout, "from 5 1\n")

    def test_an_agent_with_a_function_calls_it_once(self):
        agent, _ = self.trial("""
            import wandb
            def train():
                wandb.init()
                wandb.log({"val/loss": wandb.config.lr})
            wandb.agent(wandb.sweep({"method": "grid", "parameters": {"lr": {"values": [1, 2]}}}), function=train, count=5)
            """, parameters={"lr": 0.25})
        self.assertEqual(agent.result, {"val/loss": 0.25})

    def test_callbacks_of_keras(self):
        for name in ("keras", "tensorflow"):
            (self.modules / name).mkdir()
            (self.modules / name / "__init__.py").write_text("")
        (self.modules / "keras" / "callbacks.py").write_text("class Callback:\n    model = None\nclass ModelCheckpoint(Callback):\n    pass\n")
        agent, _ = self.trial("""
            import keras.callbacks
            import wandb
            from wandb.integration.keras import WandbMetricsLogger
            from wandb.keras import WandbCallback
            class Model:
                def save(self, path): open(path, "w").write("model")
            wandb.init()
            callback, logger = WandbCallback(monitor="val_loss"), WandbMetricsLogger()
            assert isinstance(callback, keras.callbacks.Callback) and isinstance(logger, keras.callbacks.Callback)
            callback.model = Model()
            for epoch, value in enumerate([3.0, 1.0, 2.0]):
                callback.on_epoch_end(epoch, {"val_loss": value})
                logger.on_epoch_end(epoch, {"val_loss": value})
            """, metric="val_loss")
        self.assertEqual(agent.result, {"val_loss": 2.0, "epoch": 2, "best_val_loss": 1.0, "best_epoch": 1, "epoch/epoch": 2, "epoch/val_loss": 2.0})
        self.assertEqual((agent.directory / "files/model-best.h5").read_text(), "model")


class WandbByHand(Scripts):
    def test_keeps_a_run_folder_and_prints_where(self):
        done = self.run_script("""
            import wandb
            run = wandb.init(project="p", name="first", config={"lr": 0.5, "model": {"width": 3}})
            for epoch in range(3):
                run.log({"loss": 1 / (epoch + 1)})
            """)
        folder = self.by_hand()
        self.assertIn(f"wandb run first: {folder}", done.stderr)
        run = foretime.Run(folder)
        self.assertEqual(run.settings, {"lr": 0.5, "model": {"width": 3}})
        self.assertEqual(run.metrics("train")["loss"].tolist(), [1, 1 / 2, 1 / 3])
        self.assertEqual(run.metrics("final")["loss"].tolist(), [1 / 3])

    def test_disabled_keeps_nothing(self):
        self.run_script("import wandb\nrun = wandb.init(mode='disabled')\nrun.log({'a': 1})\nopen(run.dir + '/x', 'w').close()\n")
        self.assertFalse((self.folder / "runs").exists())

    def test_says_what_is_not_carried(self):
        done = self.run_script("""
            import wandb
            for call in (lambda: wandb.Api().runs("e/p"), lambda: wandb.log({"a": 1}), lambda: wandb.unknown_call(), lambda: wandb.agent("e/p/id", function=print)):
                try:
                    call()
                except Exception as error:
                    print(type(error).__name__, error)
            """)
        self.assertRegex(done.stdout, r"(?s)CommError.*Api\(\)\.runs.*Error You must call wandb.init.*AttributeError.*unknown_call.*FORETIME_REAL.*"
                                      r"CommError.*made no sweep")

    def test_the_installed_package_comes_first_outside_of_trials(self):
        (self.folder / "site" / "wandb").mkdir(parents=True)
        (self.folder / "site" / "wandb" / "__init__.py").write_text("from . import inside\nname = 'installed'\n")
        (self.folder / "site" / "wandb" / "inside.py").write_text("import wandb\n")
        (self.folder / "wandb").mkdir()  # where W&B keeps runs: no package
        script = "import sys\nsys.path.append('site')\nimport wandb\nprint(getattr(wandb, 'name', 'carried'))\n"
        self.assertEqual(self.run_script(script).stdout, "installed\n")
        self.assertEqual(self.trial(script)[1].stdout, "carried\n")
        self.assertEqual(self.trial(script, attempt=2, FORETIME_REAL="mlflow, wandb")[1].stdout, "installed\n")
        done = self.trial("import wandb\n", attempt=3, FORETIME_REAL="wandb", code=1)[1]
        self.assertIn("ModuleNotFoundError: No module named 'wandb', which FORETIME_REAL asks for", done.stderr)

    SWEEP = """
        import wandb
        def train():
            with wandb.init() as run:
                if run.config.x == 3:
                    raise ValueError("a trial that fails")
                wandb.log({"loss": run.config.x + run.config.inner["y"]})
        sweep = {"name": "squares", "method": "grid", "metric": {"name": "loss", "goal": "minimize"},
                 "parameters": {"x": {"values": [1, 2, 3]}, "inner": {"parameters": {"y": {"value": 0.5}}}}}
        wandb.agent(wandb.sweep(sweep, project="p"), function=train)
        print("done")
        """

    def test_a_sweep_of_a_function_without_the_program(self):
        done = self.run_script(self.SWEEP, FORETIME_PROGRAM="/nowhere/foretime")
        self.assertEqual(done.stdout.splitlines()[-1], "done")
        self.assertIn("a trial that fails", done.stderr)
        found = {run.settings["x"]: run.metrics("final")["loss"].tolist() for run in map(foretime.Run, (self.folder / "runs").iterdir())
                 if run.settings["x"] != 3}
        self.assertEqual(found, {1: [1.5], 2: [2.5]})

    def test_a_sweep_of_a_function_takes_trials_from_the_queue(self):
        done = self.run_script(self.SWEEP.replace('"method": "grid"', '"max_attempts": 1, "method": "grid"'))
        self.assertEqual(done.stdout.splitlines()[-1], "done")
        trials = foretime.Queue(runs=self.folder / "runs").trials()
        self.assertEqual(trials["state"].tolist().count("succeeded"), 2)
        self.assertEqual(trials["value"].tolist()[:2], [1.5, 2.5])

    def test_runs_a_program_with_the_modules(self):
        self.write("fit.py", "import sys, wandb\nprint(wandb.__version__, sys.argv)\n")
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        done = subprocess.run([sys.executable, "-m", "foretime.compat", "fit.py", "--lr=1"], cwd=self.folder, env=environment, capture_output=True, text=True,
                              check=True)
        self.assertRegex(done.stdout, r"^\d.*foretime \['fit.py', '--lr=1'\]")
        done = subprocess.run([sys.executable, "-m", "foretime.compat"], env=environment, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), str(COMPAT.resolve()))


class Optuna(Scripts):
    SCRIPT = """
        import optuna
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        def objective(trial):
            x = trial.suggest_float("x", -2, 2)
            n = trial.suggest_int("n", 1, 8, log=True)
            kind = trial.suggest_categorical("kind", ["a", None, 3])
            rate = trial.suggest_loguniform("rate", 1e-3, 1.0)
            for step in range(3):
                trial.report(x * x + step, step)
                if trial.should_prune():
                    raise optuna.TrialPruned()
            print(x, n, kind, round(rate, 9))
            trial.set_user_attr("size", 5)
            return x * x

        study = optuna.create_study(direction="minimize", sampler=TPESampler(seed=1), pruner=optuna.pruners.MedianPruner(), storage="sqlite:///x")
        study.optimize(objective, n_trials=4, timeout=600)
        print(len(study.trials), len(study.get_trials(states=[TrialState.COMPLETE])), study.best_value == study.best_trial.value, sorted(study.best_params))
        optuna.visualization.plot_slice(study).show()
        """

    def test_a_trial_takes_the_sweeps_parameters(self):
        agent, done = self.trial(self.SCRIPT, parameters={"x": 0.5, "n": 4, "kind": "3", "rate": 5}, metric="loss")
        self.assertEqual(done.stdout.splitlines()[0], "0.5 4 3 5.0")
        self.assertTrue(done.stdout.splitlines()[1].startswith("1 1 True"))
        self.assertEqual([(one["step"], one["metrics"]) for one in agent.of("evaluation")], [(step, {"loss": 0.25 + step}) for step in range(3)])
        self.assertEqual(agent.result, {"loss": 0.25, "size": 5})
        self.assertIn("rate: the sweep chose 5.0, outside of what the program suggests", done.stderr)

    def test_parameters_that_the_sweep_lacks_are_drawn_and_told(self):
        first = self.trial(self.SCRIPT, parameters={"x": 0.5, "n": 4, "rate": 0.5}, metric="loss")[1]
        second = self.trial(self.SCRIPT, parameters={"x": 0.5, "n": 4, "rate": 0.5}, metric="loss", attempt=2)[1]
        self.assertIn("kind: not among the sweep's parameters: drawn at random", first.stderr)
        self.assertEqual(first.stdout, second.stdout, "a retry draws the same")

    def test_prunes_when_the_agent_asks_for_it(self):
        script = self.SCRIPT.replace("for step in range(3):", "import time\n            for step in range(100000):\n                time.sleep(0.01)")
        agent, _ = self.trial(script, parameters={"x": 0.5}, metric="loss", stops=lambda message: message["type"] == "evaluation", code=75)
        self.assertGreaterEqual(agent.result["loss"], 0.25)

    def test_ask_and_tell_do_one_trial(self):
        agent, _ = self.trial("""
            import optuna
            study = optuna.create_study(direction="minimize")
            for _ in range(5):
                trial = study.ask()
                study.tell(trial, trial.suggest_float("x", 0, 1))
            raise AssertionError("a second trial")
            """, parameters={"x": 0.5}, metric="loss")
        self.assertEqual(agent.result, {"loss": 0.5})

    def test_by_hand_it_draws_and_writes_a_sweep_file(self):
        done = self.run_script(self.SCRIPT)
        self.assertIn("4 4 True ['kind', 'n', 'rate', 'x']", done.stdout)
        self.assertEqual(done.stdout, self.run_script(self.SCRIPT).stdout, "by the sampler's seed")
        folder = sorted((self.folder / "runs").iterdir())[0]
        self.assertEqual(len(foretime.Run(folder).metrics("train")["value"]), 4)
        checked = subprocess.run([os.environ["FORETIME"], "submit", folder / "sweep.yaml", "--dry-run", "--json"], cwd=self.folder, capture_output=True, text=True,
                                 check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertEqual(len(json.loads(checked.stdout)["jobs"]), 4)
        self.assertNotIn("optuna.integration", done.stderr)

    def test_callbacks_of_lightning(self):
        package = self.modules / "pytorch_lightning"
        package.mkdir()
        (package / "__init__.py").write_text("class Callback:\n    pass\n")
        agent, _ = self.trial("""
            import pytorch_lightning as pl
            import optuna
            from optuna.integration import PyTorchLightningPruningCallback
            class Trainer:
                sanity_checking, callback_metrics, current_epoch = False, {"val_acc": 0.5}, 0
            def objective(trial):
                callback = PyTorchLightningPruningCallback(trial, monitor="val_acc")
                assert isinstance(callback, pl.Callback)
                callback.on_validation_end(Trainer, None)
                return 0.75
            optuna.create_study(direction="maximize").optimize(objective, n_trials=2)
            """, metric="val_acc")
        self.assertEqual([one["metrics"] for one in agent.of("evaluation")], [{"val_acc": 0.5}])
        self.assertEqual(agent.result, {"val_acc": 0.75})


class MLflow(Scripts):
    SCRIPT = """
        import mlflow
        import mlflow.sklearn
        from mlflow.models import infer_signature
        from mlflow.tracking import MlflowClient
        open("note.txt", "w").write("n")
        mlflow.set_tracking_uri("http://nowhere:5000")
        mlflow.set_experiment("wine")
        with mlflow.start_run(run_name="first") as run:
            mlflow.log_param("alpha", 0.5)
            mlflow.log_params({"depth": 3})
            for epoch in range(3):
                mlflow.log_metric("rmse", 3 - epoch, step=epoch)
                mlflow.log_metrics({"mae": epoch})
            mlflow.set_tag("kind", "x")
            mlflow.log_artifact("note.txt")
            mlflow.log_dict({"a": 1}, "data/a.json")
            mlflow.sklearn.log_model({"weights": 1}, "model", signature=infer_signature([1], [2]))
            with mlflow.start_run(nested=True):
                mlflow.log_metric("inner", 1)
            MlflowClient().log_metric(run.info.run_id, "late", 4)
            try:
                mlflow.log_param("alpha", 0.6)
            except mlflow.exceptions.MlflowException as error:
                print(error)
        """

    def test_in_a_trial(self):
        agent, done = self.trial(self.SCRIPT, metric="rmse")
        self.assertEqual([(one["step"], one["metrics"]) for one in agent.of("evaluation")], [(0, {"rmse": 3}), (1, {"rmse": 2}), (2, {"rmse": 1})])
        self.assertEqual(agent.result, {"rmse": 1, "mae": 2, "inner": 1, "late": 4})
        self.assertIn("Changing param values is not allowed", done.stdout)
        artifacts = agent.directory / "files" / "artifacts"
        self.assertEqual({str(path.relative_to(artifacts)) for path in artifacts.rglob("*") if path.is_file()}, {"note.txt", "data/a.json", "model/model.pkl"})
        self.assertEqual(json.loads((agent.directory / "files/run.json").read_text())["params"], {"alpha": "0.5", "depth": "3"})

    def test_by_hand_and_what_fails(self):
        self.run_script(self.SCRIPT)
        self.assertEqual(foretime.Run(self.by_hand()).settings, {"alpha": "0.5", "depth": "3"})
        agent, _ = self.trial("import mlflow\nwith mlflow.start_run():\n    mlflow.log_metric('rmse', 1)\n    raise ValueError\n", metric="rmse", code=1)
        self.assertIsNone(agent.result)


class Lightning(Scripts):
    def test_a_logger_of_its_interface(self):
        package = self.modules / "lightning" / "pytorch" / "loggers"
        package.mkdir(parents=True)
        for folder in (package, package.parent, package.parent.parent):
            (folder / "__init__.py").write_text("")
        (package / "logger.py").write_text("class Logger:\n    pass\n")
        script = """
            import sys
            import lightning.pytorch.loggers.logger
            import wandb
            from foretime.lightning import ForetimeLogger
            logger = ForetimeLogger()
            assert isinstance(logger, lightning.pytorch.loggers.logger.Logger)
            logger.log_hyperparams({"lr": 0.5})
            for step in range(3):
                logger.log_metrics({"train_loss": 1 / (step + 1)}, step=step)
                logger.log_metrics({"val/loss": 3 - step, "epoch": 0}, step=step)
            logger.finalize("success")
            print(logger.name, logger.version, logger.save_dir)
            """
        agent, done = self.trial(script)
        self.assertEqual([one["metrics"]["val/loss"] for one in agent.of("evaluation")], [3, 2, 1])
        self.assertEqual(agent.result, {"train_loss": 1 / 3, "val/loss": 1, "epoch": 0})
        self.assertEqual(done.stdout.split(), ["lightning", "job", str(agent.directory)])


class PrintedMetrics(Scripts):
    COMMAND = "import runpy, sys\nsys.argv = ['foretime_metric.py', *sys.argv[1:]]\nrunpy.run_path({path!r}, run_name='__main__')\n"

    def printed(self, pattern, program, metric="val_loss", **options):
        return self.trial(self.COMMAND.format(path=str(COMPAT / "foretime_metric.py")), "--metric", metric, "--stdout", pattern, "--", sys.executable, "-c",
                          textwrap.dedent(program), metric=metric, **options)

    def test_lines_become_evaluations_and_the_result(self):
        agent, done = self.printed("val_loss ([0-9.e+-]+)", "for i in range(3): print(f'epoch {i} val_loss {1 / (i + 1)}')\nprint('other')")
        self.assertEqual([(one["step"], one["metrics"]["val_loss"]) for one in agent.of("evaluation")], [(1, 1.0), (2, 0.5), (3, 1 / 3)])
        self.assertEqual(agent.result, {"val_loss": 1 / 3})
        self.assertIn("other", done.stdout)
        named, _ = self.printed(r"(?P<step>\d+): (?P<acc>\S+) (?P<metric>\S+)", "print('7: 0.5 nan')\nprint('8: 0.75 0.25')", attempt=2)
        self.assertEqual([(one["step"], one["metrics"]) for one in named.of("evaluation")], [(7, {"val_loss": None, "acc": 0.5}), (8, {"val_loss": 0.25, "acc": 0.75})])

    def test_ends_as_the_program_does(self):
        agent, _ = self.printed("val_loss (.*)", "import sys\nprint('val_loss 1')\nsys.exit(3)", code=3)
        self.assertIsNone(agent.result)
        self.printed("val_loss (.*)", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", code=-9, attempt=2)
        agent, _ = self.printed("val_loss (.*)", "import time\nfor i in range(100000):\n    print('val_loss', i, flush=True)\n    time.sleep(0.02)",
                                stops=lambda message: message["type"] == "evaluation", code=75, attempt=3)
        self.assertIsNotNone(agent.result)

    def test_a_wrong_pattern_is_final(self):
        for attempt, pattern in enumerate(("val_loss", "val_loss (", "")):
            _, done = self.printed(pattern, "print(1)", code=2, attempt=attempt + 1)
            self.assertIn("metric_from.stdout: ", done.stderr)


class Values(unittest.TestCase):
    def test_numbers(self):
        import numpy as np

        for value, number in ((1, 1), (True, 1), (0.5, 0.5), (np.float32(0.5), 0.5), (np.int64(3), 3), (np.array(2.0), 2.0), (np.array([2]), 2)):
            self.assertEqual((number_of(value), type(number_of(value))), (number, type(number)), repr(value))
        for value in (None, "1", [1], (1,), {"a": 1}, np.arange(2), object(), Ignored()):
            self.assertIsNone(number_of(value), repr(value))
        self.assertEqual(flat_items({"a": {"b": 1, "c": {"d": 2}}, "e": {}}), {"a.b": 1, "a.c.d": 2, "e": {}})


if __name__ == "__main__":
    unittest.main()
