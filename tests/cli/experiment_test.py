"""Experiments as their users run them: trials, what is complete, tables; and the same over the job queue."""
import json
import os
import subprocess

from program import FORETIME, LIMIT, SAMPLES, SOURCE, ProgramTest, environment, wait_until

EXPERIMENT = """
title: A small experiment
settings: base.yaml
fractions: [0.5, 1]
seeds: 2
metrics: [mae, kendall_tau, top1_score]
remeasured: ../tir/resnet18_conv2d_retest.npz
entries:
  - {label: MLP, set: {model.type: mlp}}
  - {label: GCN, set: {model.type: gcn}}
  - {label: XGBoost, kind: xgboost, features: ../tir/resnet18_conv2d_itervar_features.npz, rows: loops, rounds: 10}
  - {label: mean, kind: mean}
  - {label: random, kind: random}
"""
BASE = """
data: {format: programs, root: SAMPLES, train: [C1.npz, C12.npz], test: [C10.npz, C11.npz], holdout: 0.2, max_eval_candidates: 40}
model: {type: gcn, hidden: 8, readout: [mean], features: {transform: zscore}}
loss: {type: huber, target: log_runtime_per_flop, standardize_target: true}
sampler: {groups_per_batch: 2, candidates_per_group: 6, samples_per_group: 4}
trainer: {steps: 6, eval_every: 3, metric: holdout/mae, metric_goal: minimize, device: cpu, threads: 1, baselines: [mean]}
"""
STATEMENTS = """
settings: base.yaml
overrides:
  data: {root: SOURCE/samples/ansor/trees, train: ["t0{0,1,2}.npz"], test: ["t2{1,2}.npz"]}
metrics: [pairwise_accuracy, rmse]
entries:
  - {label: GCN, ranking, set: {loss.type: pairwise_logistic, trainer.metric: holdout/pairwise_accuracy, trainer.metric_goal: auto}}
  - {label: XGBoost, kind: xgboost, features: ../features_per_store.npz, rows: statements, rounds: 10}
classes: {ResNet-18: "t2?"}
"""


class ExperimentTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        self.write("small.yaml", EXPERIMENT)

    def values(self, path, **chosen):
        """metric -> value of one trial, but for what the run took: no two runs take the same."""
        return {
            row["metric"]: float(row["value"])
            for row in self.rows(path)
            if row["metric"] not in ("seconds", "memory") and all(row[key] == value for key, value in chosen.items())
        }

    def test_without_a_reader_it_reports_all_the_same(self):
        self.write(
            "two.yaml",
            "title: Two\nsettings: base.yaml\nmetrics: [mae]\nentries: [{label: mean, kind: mean}, {label: random, kind: random}]\n",
        )
        read, write = os.pipe()
        with subprocess.Popen(
            [FORETIME, "experiment", "two.yaml"],
            env=environment(),
            cwd=self.folder,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            os.close(write)
            os.close(read)
            self.assertNotIn("Broken pipe", process.communicate(timeout=LIMIT)[1])
        self.assertEqual(process.returncode, 0)
        self.assertIn("random", (self.folder / "runs/experiments/two/summary.md").read_text())

    def test_trials_and_tables(self):
        dry = self.run_foretime("experiment", "small.yaml", "--dry-run").stdout
        self.assertIn("20 trials, 0 complete; nothing was run", dry)
        self.assertFalse((self.folder / "runs").exists())
        done = self.run_foretime("experiment", "small.yaml")
        out = self.folder / "runs/experiments/small"
        for text in ("A small experiment", "20 of 20 trials", "XGBoost", "second measurement"):
            self.assertIn(text, done.stdout)

        # A trial is the run that foretime train makes with its settings, and its metrics are those of that run.
        trial = out / "trials/gcn/fraction-0.5/seed-2"
        final = json.loads((trial / "metrics.jsonl").read_text().splitlines()[-1])
        own = self.values("runs/experiments/small/results.csv", entry="GCN", fraction="0.5", seed="2")
        self.assertAlmostEqual(own["mae"], 1e3 * final["test/mae"], places=9)
        self.assertAlmostEqual(own["rmse"], 1e3 * final["test/rmse"], places=9)
        for name in ("kendall_tau", "top1_score", "pairwise_accuracy"):
            self.assertAlmostEqual(own[name], final["test/" + name], places=9, msg=name)
        self.run_foretime(
            "train", "--quiet", "base.yaml", "data.train_fraction=0.5", "trainer.seed=2", "run.directory=alone"
        )
        self.assertEqual((self.folder / "alone/rankings.csv").read_bytes(), (trial / "rankings.csv").read_bytes())
        # So is the mean: train's own baseline.
        comparison = (self.folder / "alone/comparison.txt").read_text()
        mean = self.values("runs/experiments/small/results.csv", entry="mean", fraction="0.5", seed="2")["mae"]
        self.assertIn(f"{mean:.4g}", comparison.split("test:")[1])
        # All entries are measured on the same candidates.
        predictions = self.rows("runs/experiments/small/predictions.csv")
        self.assertFalse(
            self.values("runs/experiments/small/results.csv", seed="joined"), "seeds draw different candidates"
        )
        measured = {}
        for row in predictions:
            measured.setdefault((row["entry"], row["seed"]), set()).add((row["group"], row["id"], row["measured"]))
        self.assertEqual(len(measured), 10)
        for seed in ("1", "2"):
            self.assertEqual(len({frozenset(rows) for (_, own), rows in measured.items() if own == seed}), 1)

        # What is complete is not run again; what is missing is, and nothing else.
        before = {path: path.stat().st_mtime_ns for path in out.glob("trials/*/*/*/rankings.csv")}
        self.assertEqual(len(before), 20)
        (trial / "trial.json").unlink()
        again = self.run_foretime("experiment", "small.yaml")
        self.assertEqual(again.stderr.count(": complete"), 19)
        after = {path: path.stat().st_mtime_ns for path in before}
        self.assertEqual([path for path in before if before[path] != after[path]], [trial / "rankings.csv"])
        self.assertEqual(self.values("runs/experiments/small/results.csv", entry="GCN", fraction="0.5", seed="2"), own)
        report = self.run_foretime("experiment", "small.yaml", "--report", "--entries", "GCN", "--seeds", 1).stdout
        self.assertIn("2 of 2 trials", report)

        # Other settings are another experiment: refused, unless it is to be made anew.
        refused = self.run_foretime(
            "experiment", "small.yaml", "trainer.steps=7", "--entries", "MLP", "--fractions", 1, code=2
        )
        self.assertIn("trainer.steps: 6 -> 7", refused.stderr)
        self.assertIn("--overwrite", refused.stderr)
        anew = self.run_foretime(
            "experiment", "small.yaml", "trainer.steps=7", "--entries", "MLP", "--fractions", 1, "--overwrite"
        )
        self.assertIn("2 of 2 trials", anew.stdout)

    def test_test_files_are_added_without_training_again(self):
        chosen = ("experiment", "small.yaml", "--fractions", 1, "--seeds", 1, "--entries", "GCN,XGBoost,mean")
        more = "data.test=[C10.npz, C11.npz, C9.npz]"
        self.run_foretime(*chosen, "--out", "out")
        trained = self.folder / "out/trials/gcn/fraction-1/seed-1"
        weights = {path: path.stat().st_mtime_ns for path in trained.glob("checkpoints/*/model.safetensors")}
        self.assertTrue(weights)
        dry = self.run_foretime(*chosen, more, "--out", "out", "--dry-run").stdout
        self.assertIn("3 trials, 0 complete", dry)
        self.assertEqual(dry.count("trained, other test groups to be measured"), 3)
        done = self.run_foretime(*chosen, more, "--out", "out")
        self.assertIn("trained, but evaluated on other test groups", done.stderr)
        self.assertEqual(
            {path: path.stat().st_mtime_ns for path in trained.glob("checkpoints/*/model.safetensors")}, weights
        )
        # Everything is as if all files had been there at first.
        self.run_foretime(*chosen, more, "--out", "at-once")
        for entry in ("gcn", "xgboost", "mean"):
            later, at_once = (
                self.folder / out / f"trials/{entry}/fraction-1/seed-1/rankings.csv" for out in ("out", "at-once")
            )
            self.assertEqual(later.read_bytes(), at_once.read_bytes(), entry)
        self.assertIn("C9", {row["group"] for row in self.rows("out/predictions.csv")})
        self.assertIn("3 trials, 3 complete", self.run_foretime(*chosen, more, "--out", "out", "--dry-run").stdout)
        # Validation groups choose the model, so they are another training.
        refused = self.run_foretime(*chosen, "data.valid=[C9.npz]", "--out", "out", code=2)
        self.assertIn("data.valid: [] -> [C9.npz]", refused.stderr)

    def test_ranks_make_the_same_experiment(self):
        chosen = ("experiment", "small.yaml", "--entries", "GCN,mean", "--fractions", "1", "--seeds", "1", "--out")
        self.run_foretime(*chosen, "one")
        self.run_foretime(*chosen, "two", ranks=2)
        for entry in ("GCN", "mean"):
            one, two = (self.values(f"{out}/results.csv", entry=entry, seed="1") for out in ("one", "two"))
            self.assertGreater(len(one), 8)
            for name, value in one.items():
                self.assertAlmostEqual(value, two[name], places=3, msg=f"{entry} {name}")

    def test_a_pre_empted_experiment_continues(self):
        command = [
            "experiment",
            "small.yaml",
            "--entries",
            "GCN",
            "--fractions",
            "1",
            "--seeds",
            "1",
            "trainer.steps=100000",
            "trainer.eval_every=0",
            "--out",
            "out",
        ]
        process = self.start(*command)
        metrics = self.folder / "out/trials/gcn/fraction-1/seed-1/metrics.jsonl"
        wait_until(lambda: metrics.exists() and metrics.stat().st_size > 0)
        process.terminate()
        errors = process.communicate(timeout=LIMIT)[1]
        self.assertEqual(process.returncode, 75, errors)
        steps = [path.name for path in metrics.parent.glob("checkpoints/step-*")]
        self.assertEqual(len(steps), 1)
        step = int(steps[0].removeprefix("step-"))
        message = self.run_foretime(
            "experiment", *command[1:-3], f"trainer.steps={step + 2}", "--out", "out", code=2
        ).stderr
        self.assertIn("trainer.steps: 100000", message)
        self.assertNotIn("complete", self.run_foretime("experiment", *command[1:], "--dry-run").stdout.splitlines()[0])

    def test_statement_features_and_models_that_only_rank(self):
        (self.folder / "statements.yaml").write_text(
            STATEMENTS.replace("SOURCE", str(SOURCE)).replace("label: GCN, ranking", 'label: "GCN, ranking"')
        )
        done = self.run_foretime("experiment", "statements.yaml")
        self.assertIn("2 of 2 trials", done.stdout)
        out = self.folder / "runs/experiments/statements"
        self.assertIn("ResNet-18", (out / "summary.md").read_text())
        for entry in ("GCN, ranking", "XGBoost"):
            values = self.values("runs/experiments/statements/results.csv", entry=entry)
            self.assertNotIn("rmse", values)
            self.assertTrue(0 <= values["pairwise_accuracy"] <= 1)

    def test_trials_as_jobs(self):
        chosen = ("small.yaml", "--fractions", "1", "--seeds", "2", "--entries", "MLP,GCN,mean")
        done = self.run_foretime("experiment", *chosen, "--submit").stdout
        self.assertIn("4 jobs added, 0 were there already", done)
        self.assertIn("0 jobs added, 4 were there already", self.run_foretime("experiment", *chosen, "--submit").stdout)
        early = self.run_foretime("experiment", *chosen, "--collect").stdout
        self.assertIn("4 jobs: waiting", early)
        self.assertIn("2 of 6 trials", early)  # the mean's
        self.run_foretime("agent", "--cpus", 2, "--until-empty", "--data-root", SAMPLES)
        late = self.run_foretime("experiment", *chosen, "--collect").stdout
        self.assertIn("6 of 6 trials", late)
        jobs = self.values("runs/experiments/small/results.csv", entry="GCN", seed="2")
        self.run_foretime("experiment", *chosen, "--out", "here")
        self.assertEqual(jobs, self.values("here/results.csv", entry="GCN", seed="2"))
        self.assertIn("±", self.run_foretime("leaderboard").stdout)

    def test_what_is_wrong_is_said(self):
        (self.folder / "configs/experiments").mkdir(parents=True)
        self.write("configs/experiments/mine.yaml", "metrics: [mae]\nentries: [{label: A}]\n")
        self.assertIn("(mine)", self.run_foretime("experiment", "min", code=2).stderr)
        self.assertIn("data.train", self.run_foretime("experiment", "mine", code=2).stderr)
        self.write("bad.yaml", EXPERIMENT.replace("itervar_features", "retest"))
        self.assertIn("retest.npz", self.run_foretime("experiment", "bad.yaml", "--entries", "XGBoost", code=3).stderr)
        self.write("bad.yaml", EXPERIMENT.replace("resnet18_conv2d_retest", "ansor_retest"))
        message = self.run_foretime("experiment", "bad.yaml", "--entries", "mean", code=3).stderr
        self.assertIn("ansor_retest.npz: holds none of the candidates", message)
