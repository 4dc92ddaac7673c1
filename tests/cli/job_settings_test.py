"""What every reader shows as the settings of a job: those that its attempt ran with."""
import json
import pathlib
import subprocess
import sys
import unittest

import yaml

from program import FORETIME, SOURCE, environment
from queue_case import QueueTest

SWEEP = """
name: settings
settings: base.yaml
method: grid
seeds: 2
overrides: {trainer.log_every: 2}
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {values: [6, 10]}
  optimizer.learning_rate: {values: [0.01, 0.003]}
then: [{evaluate: {files: [C11.npz]}}]
"""
BAYES = (
    SWEEP.replace("method: grid", "method: bayes\nrun_cap: 3")
    .replace("seeds: 2\n", "")
    .replace("{values: [0.01, 0.003]}", "{min: 0.001, max: 0.01}")
)
PROGRAM = """
program: own.py
method: grid
metric: {name: loss, goal: minimize}
parameters:
  rate: {values: [0.5]}
  optimizer.kind: {values: [sgd]}
"""
OWN = """
import json, os
told = json.load(open(os.environ["FORETIME_TRIAL"]))
with open(told["directory"] + "/metrics.jsonl", "w") as file:
    file.write(json.dumps({"kind": "final", "step": 1, "loss": 1}) + "\\n")
"""
# What each agent chooses for an attempt.
OF_THE_AGENT = ("run", "checkpoint.resume", "data.root", "data.allowed_roots", "trainer.threads")


def flat(settings, before=""):
    found = {}
    for key, value in settings.items():
        name = before + key
        if isinstance(value, dict):
            found.update(flat(value, name + "."))
        elif name in ("data.train", "data.valid", "data.test"):  # the agent's paths begin at its --data-root
            found[name] = [pathlib.Path(file).name for file in value]
        elif not name.startswith(OF_THE_AGENT):
            found[name] = value
    return found


class JobSettingsTest(QueueTest):
    def shown(self, job):
        """The settings of a job as each command shows them: {command: text}."""
        text = self.foretime("status", job)
        block = text[text.index("\nsettings") :].split("\n")[2:]
        python = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import foretime, sys; sys.stdout.write(foretime.Queue(runs='runs').jobs('{job}')[0]['settings'])",
            ],
            cwd=self.folder,
            env={**environment(), "PYTHONPATH": str(SOURCE / "python"), "FORETIME_PROGRAM": FORETIME},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return {
            "status": "\n".join(line[4:] for line in block).rstrip("\n") + "\n",
            "status --json": self.json("status", job)["settings"],
            "Queue": python,
            "config": self.foretime("config", job[:8]),
        }

    def test_every_trial_shows_the_settings_of_its_attempt(self):
        self.write_sweep(text=SWEEP)
        sweep = self.json("submit", "sweep.yaml")["sweep"]
        self.finish(self.agent("--cpus", 2, "--until-empty"))
        jobs = self.jobs(sweep)
        trials = [job for job in jobs if job["kind"] == "train"]
        self.assertEqual(len(trials), 8)
        seen = set()
        for job in trials:
            ran_with = flat(yaml.safe_load((self.folder / "runs" / job["id"] / "attempt-1/config.yaml").read_text()))
            self.assertEqual(str(ran_with["model.hidden"]), job["parameters"]["model.hidden"])
            seen.add((ran_with["model.hidden"], ran_with["optimizer.learning_rate"], ran_with["trainer.seed"]))
            for reader, text in self.shown(job["id"]).items():
                self.assertEqual(flat(yaml.safe_load(text)), ran_with, f"{reader} of trial {job['trial']}")
        self.assertEqual(len(seen), 8, "trials differ")
        # What is printed trains the same model.
        best = min(trials, key=lambda job: job["objective"])
        self.write("best.yaml", self.foretime("config", best["id"], "run.directory=best"))
        self.foretime("train", "best.yaml")
        final = self.lines_of("best")[-1]
        self.assertEqual(final["holdout/mae"], best["objective"])
        evaluation = next(job for job in jobs if job["kind"] == "evaluate")
        self.assertIn("C11.npz", self.foretime("config", evaluation["id"]))
        self.assertIn("is not a training", self.foretime("config", evaluation["id"], "trainer.steps=1", code=2))
        self.assertIn("no job has an id that begins with 'ffff'", self.foretime("config", "ffff", code=2))
        self.assertIn("missing.yaml", self.foretime("config", "missing.yaml", code=2))

    def test_a_trial_whose_parameters_are_not_chosen_yet_says_so(self):
        self.write_sweep(text=BAYES)
        jobs = self.jobs(self.json("submit", "sweep.yaml")["sweep"])
        waiting = next(job for job in jobs if job["kind"] == "train")
        for reader, text in self.shown(waiting["id"]).items():
            self.assertRegex(text, r"^# The search chooses the parameters", reader)
            self.assertEqual(yaml.safe_load(text)["model"]["hidden"], 8, "the base's")

    def test_a_trial_of_a_program_shows_what_the_program_was_given(self):
        self.write("own.py", OWN)
        self.write("sweep.yaml", PROGRAM)
        job = self.jobs(self.json("submit", "sweep.yaml")["sweep"])[0]["id"]
        self.finish(self.agent("--programs", ".", "--until-empty"))
        given = json.loads((self.folder / "runs" / job / "attempt-1/arguments.json").read_text())
        self.assertEqual(given["rate"], 0.5)
        for reader, text in self.shown(job).items():
            self.assertEqual(yaml.safe_load(text)["parameters"], given, reader)

    def test_numbers_that_are_not_known_are_missing(self):
        """Not 0, which would be read as a loss, a duration or a time."""
        job = self.json("submit", "base.yaml")["jobs"][0]["id"]
        before = self.json("status", job)
        for name in (
            "loss",
            "trial",
            "total_steps",
            "eta_seconds",
            "seconds",
            "claimed_ms",
            "finished_ms",
            "due_ms",
            "objective",
            "best_objective",
        ):
            self.assertIsNone(before[name], name)
        self.assertGreater(before["submitted_ms"], 0)
        self.finish(self.agent("--until-empty"))
        after = self.json("status", job)
        self.assertEqual(after["state"], "succeeded")
        self.assertIsNone(after["loss"], "Redis does not keep it")
        for name in ("total_steps", "seconds", "claimed_ms", "finished_ms", "objective", "best_objective"):
            self.assertGreater(after[name], 0, name)
        self.assertNotRegex(self.foretime("status", job), r"(?m)^loss ")
        self.assertIsNone(self.json("queue")["oldest_waiting_ms"])

    def test_settings_that_cannot_be_resolved_are_marked(self):
        self.write_sweep(text=SWEEP)
        sweep = self.json("submit", "sweep.yaml")["sweep"]
        job = next(job for job in self.jobs(sweep) if job["kind"] == "train")
        # The embedded Redis lives as long as somebody uses it.
        watching = self.background("status", sweep, "--watch=0.5", "--json")
        self.wait_for("Redis", (self.folder / "runs/.redis/redis.sock").exists)
        import redis

        queue = redis.Redis(unix_socket_path=str(self.folder / "runs/.redis/redis.sock"))
        queue.hset(f"{{foretime}}:job:{job['id']}", "parameters", "{")
        for text in (self.foretime("status", job["id"]), self.json("status", job["id"])["settings"]):
            self.assertIn("# Not the settings that the job runs with, which cannot be resolved: ", text)
        self.assertIn("field parameters", self.foretime("config", job["id"], code=3))
        queue.hset(f"{{foretime}}:job:{job['id']}", "parameters", json.dumps(job["parameters"]))
        queue.delete(f"{{foretime}}:sweep:{sweep}")
        self.assertIn(
            "# Not the settings that the job runs with, which cannot be resolved: ",
            self.json("status", job["id"])["settings"],
        )
        watching.kill()


if __name__ == "__main__":
    unittest.main()
