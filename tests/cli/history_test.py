"""What trainings measured at their steps: histories of runs, and of jobs."""
import json
import shutil
import signal

from queue_case import BASE
from program import SAMPLES, ProgramTest, wait_until


class RunHistoryTest(ProgramTest):
    def history(self, run="run"):
        """Rows by step, of numbers as they stand there."""
        return {int(row["step"]): row for row in self.rows_of(self.run_foretime("history", run, "--csv").stdout)}

    def test_has_what_metrics_jsonl_has(self):
        self.train(trainer__steps=12, trainer__log_every=3, trainer__eval_every=6)
        rows = self.history()
        self.assertEqual(sorted(rows), [3, 6, 9, 12])
        for line in self.lines_of():
            if line["kind"] == "final":
                continue
            for name, value in line.items():
                if isinstance(value, (int, float)) and name not in ("step", "straggler_rank"):
                    self.assertEqual(float(rows[line["step"]][name]), value, name)
        self.assertGreater(float(rows[12]["memory_mib"]), 10)
        self.assertGreater(float(rows[12]["cpu_cores"]), 0)
        self.assertEqual(rows[3]["holdout/opa"], "")
        table = self.run_foretime("history", "run").stdout
        self.assertRegex(table, r"(?m)^  loss +4 +3 to 12 ")
        series = self.json_of("history", "run", "--json")
        self.assertEqual(series["holdout/opa"]["steps"], [6, 12])
        self.assertEqual(series["loss"]["values"], [float(rows[step]["loss"]) for step in (3, 6, 9, 12)])

    def test_a_resumed_run_has_no_step_twice(self):
        """Killed after steps that no checkpoint has, which are done again."""
        changes = dict(trainer__steps=400, trainer__log_every=1, trainer__eval_every=20, checkpoint__every_steps=50)
        process = self.start_training(**changes)
        metrics = self.folder / "run/metrics.jsonl"
        reached = wait_until(lambda: metrics.exists() and len(metrics.read_text().splitlines()) > 75, 0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assertTrue(reached)
        self.train(**changes)
        rows = self.history()
        self.assertEqual(list(rows), list(range(1, 401)))
        self.assertEqual([step for step in rows if rows[step]["holdout/opa"]], list(range(20, 401, 20)))

    def test_attempts_of_a_job_are_one_history(self):
        for attempt, first in ((1, 1), (2, 5), (10, 8)):
            folder = self.folder / f"runs/job/attempt-{attempt}"
            folder.mkdir(parents=True)
            (folder / "metrics.jsonl").write_text(
                "".join(
                    json.dumps({"kind": "train", "step": step, "loss": attempt}) + "\n" for step in range(first, 11)
                )
            )
        series = self.json_of("history", "runs/job", "--json")
        self.assertEqual(series["loss"]["steps"], list(range(1, 11)))
        self.assertEqual(series["loss"]["values"], [1] * 4 + [2] * 3 + [10] * 3)

    def test_what_is_no_run_is_refused(self):
        (self.folder / "empty").mkdir()
        for name in ("empty", "./missing"):
            done = self.run_foretime("history", name, code=3)
            self.assertIn(f"{name}: found neither metrics.jsonl nor attempt-N/metrics.jsonl", done.stderr)

    def test_a_job_has_its_history_with_and_without_its_folder(self):
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)).replace("steps: 6", "steps: 60, log_every: 5"))
        self.run_foretime("submit", "base.yaml")
        self.run_foretime("agent", "--data-root", SAMPLES, "--until-empty")
        job = self.json_of("status", "--json")["jobs"][0]["id"]
        whole = self.json_of("history", job[:6], "--json")
        lines = self.lines_of(f"runs/{job}/attempt-1")
        losses = {line["step"]: line["loss"] for line in lines if line["kind"] == "train"}
        self.assertEqual(dict(zip(whole["loss"]["steps"], whole["loss"]["values"])), losses)
        shutil.rmtree(self.folder / "runs" / job)
        done = self.run_foretime("history", job, "--json")
        self.assertIn("from Redis", done.stderr)
        kept = json.loads(done.stdout)
        self.assertEqual(set(kept), {"holdout/mae", "loss"})
        evaluations = {line["step"]: line["holdout/mae"] for line in lines if line["kind"] == "eval"}
        self.assertEqual(kept["holdout/mae"]["steps"][-1], 60)
        self.assertGreaterEqual(len(kept["holdout/mae"]["steps"]), 10)
        for name, measured in (("holdout/mae", evaluations), ("loss", losses)):
            for step, value in zip(kept[name]["steps"], kept[name]["values"]):
                self.assertAlmostEqual(value / measured[step], 1, delta=1 / 512)
        self.assertIn("no job has an id", self.run_foretime("history", "ffffffff", code=2).stderr)
