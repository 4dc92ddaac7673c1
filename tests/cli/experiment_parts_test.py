"""Experiments of several parts: collections that are there or not, folds, columns, ceilings, resources and the contest's file."""
import json
import shutil
import unittest
import zipfile

from program import ProgramTest, data_dir

PARTS = """
title: Two questions
overrides: {trainer: {steps: 4, threads: 1}, data.max_eval_candidates: 60}
parts:
  seen:
    requires: [npz/layout/xla/default/train]
    overrides:
      data: {train: [npz/layout/xla/default/train], valid: [npz/layout/xla/default/valid], test: [npz/layout/xla/default/test], holdout: 0.3}
    set: [valid, holdout]
    submission: by_name
    entries: &entries
      - {label: GCN, settings: gcn.yaml}
      - {label: GCN wide, settings: gcn.yaml, set: {model.hidden: 12}}
      - {label: trees, kind: xgboost, rows: layout_codes, rounds: 20}
      - {label: noise ceiling, kind: ceiling}
      - {label: random, kind: random}
    columns:
      - {metric: kendall_tau, set: valid, title: unseen}
      - {metric: kendall_tau, set: holdout, groups: ["*_a"], title: held out of a}
      - {metric: seconds}
      - {metric: memory}
  left_out_in_turn:
    folds: {count: 2, groups: [npz/layout/xla/default/train]}
    overrides: {data.format: layout}
    metrics: [opa]
    entries: [{label: GCN, settings: gcn.yaml}, {label: random, kind: random}]
  absent:
    requires: [npz/layout/nlp]
    overrides: {data.train: [npz/layout/nlp]}
    metrics: [opa]
    entries: *entries
"""
GCN = """
data: {format: layout, max_eval_candidates: 7}
model: {type: gcn, hidden: 8, layers: 1, node_type_embedding: 4}
loss: {type: listmle}
sampler: {groups_per_batch: 2, candidates_per_group: 8, samples_per_group: 2}
trainer: {steps: 99, eval_every: 0, metric: valid/kendall_tau, device: cpu}
"""


def unlabel(path):
    """Sets the run times of a layout file to zero, as in the published test splits."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    bytes_ = members["config_runtime.npy"]
    head = 10 + int.from_bytes(bytes_[8:10], "little")
    members["config_runtime.npy"] = bytes_[:head] + bytes(len(bytes_) - head)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


class ExperimentPartsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.collection = self.folder / "data/npz/layout/xla/default"
        seed = 0
        for split, names in (("train", "abc"), ("valid", "v"), ("test", "u")):
            (self.collection / split).mkdir(parents=True)
            for name in names:
                seed += 1
                self.synthesize(self.collection / split / f"synthetic_{name}.npz", 30, 5, 200, seed)
        unlabel(self.collection / "test/synthetic_u.npz")
        self.write("parts.yaml", PARTS)
        self.write("gcn.yaml", GCN)

    def column(self, path, column, **chosen):
        values = [
            float(row["value"])
            for row in self.rows(path)
            if row["column"] == column and all(row[key] == value for key, value in chosen.items())
        ]
        self.assertEqual(len(values), 1, (column, chosen))
        return values[0]

    def test_parts_and_what_they_leave(self):
        run = ("experiment", "parts.yaml", "--data", "data", "--out", "out")
        dry = self.run_foretime(*run, "--dry-run").stdout
        self.assertIn(f"parts/absent is left out: {self.folder}/data/npz/layout/nlp is not there", dry)
        self.assertIn("left_out_in_turn: GCN, 100 % of the training data, seed 1, fold 1: to do", dry)
        self.assertIn("9 trials, 0 complete", dry)
        done = self.run_foretime(*run)
        out = self.folder / "out"
        self.assertEqual(
            sorted(path.name for path in out.iterdir()), ["left_out_in_turn", "seen", "submission.csv", "summary.md"]
        )
        self.assertIn("4 of 4 trials", done.stdout)

        # One text has all parts; the ceiling is what the runs themselves report.
        summary = (out / "summary.md").read_text()
        for text in (
            "# Two questions",
            "## seen",
            "| noise ceiling |",
            "held out of a",
            "memory (MiB)",
            "5 of 5 trials",
            "is left out",
        ):
            self.assertIn(text, summary)
        final = json.loads((out / "seen/trials/gcn/fraction-1/seed-1/metrics.jsonl").read_text().splitlines()[-1])
        self.assertLess(final["valid/noise_ceiling_tau"], 1)
        self.assertAlmostEqual(
            self.column("out/seen/columns.csv", "unseen", entry="noise ceiling"),
            final["valid/noise_ceiling_tau"],
            places=9,
        )
        self.assertAlmostEqual(
            self.column("out/seen/columns.csv", "unseen", entry="GCN"), final["valid/kendall_tau"], places=9
        )
        trees = [row for row in self.rows("out/seen/columns.csv") if row["entry"] == "trees"]
        self.assertNotIn("unseen", [row["column"] for row in trees])
        self.assertGreater(self.column("out/seen/columns.csv", "held out of a", entry="trees"), 0.2)
        groups = {row["group"] for row in self.rows("out/seen/groups.csv")}
        self.assertEqual(groups, {"synthetic_v, valid", *(f"synthetic_{name}, holdout" for name in "abc")})

        # What each run took, and its column.
        resources = json.loads((out / "seen/trials/gcn/fraction-1/seed-1/resources.json").read_text())
        self.assertGreater(resources["memory_mib"], 10)
        self.assertEqual(resources["memory_mib"], resources["memory_of_all_ranks_mib"])
        self.assertAlmostEqual(
            self.column("out/seen/columns.csv", "seconds", entry="GCN"), resources["seconds"], places=6
        )

        # The contest's file ranks every candidate of the unlabelled graph, though only 60 of others are evaluated.
        for path in ("submission.csv", "seen/submission.csv"):
            header, line = (out / path).read_text().splitlines()
            self.assertEqual(header, "ID,TopConfigs")
            name, ranking = line.split(",")
            self.assertEqual(name, "layout:xla:default:synthetic_u")
            self.assertEqual(sorted(map(int, ranking.split(";"))), list(range(200)))
        self.assertIn("submission.csv has 1 graphs by GCN", summary)

        # A fold is a training run without its groups.
        self.write("fold.yaml", GCN.replace("candidates: 7", "candidates: 60"))
        train, test = (
            "[npz/layout/xla/default/train/synthetic_b.npz]",
            "[npz/layout/xla/default/train/synthetic_a.npz,npz/layout/xla/default/train/synthetic_c.npz]",
        )
        self.run_foretime(
            "train",
            "--quiet",
            "fold.yaml",
            f"data.root={self.folder}/data",
            f"data.train={train}",
            f"data.test={test}",
            "trainer.steps=4",
            "trainer.threads=1",
            "run.directory=alone",
        )
        fold = out / "left_out_in_turn/trials/gcn/fraction-1/seed-1/fold-0"
        self.assertEqual((self.folder / "alone/rankings.csv").read_bytes(), (fold / "rankings.csv").read_bytes())
        self.assertEqual(
            {row["group"] for row in self.rows("out/left_out_in_turn/groups.csv")},
            {f"synthetic_{name}" for name in "abc"},
        )

        # What is complete stays; a fold that is missing takes its entry out of the tables until it is there again.
        (fold / "trial.json").unlink()
        report = self.run_foretime(*run, "--report", "--parts", "left_out_in_turn").stdout
        self.assertIn("3 of 4 trials", report)
        again = self.run_foretime(*run)
        self.assertEqual(again.stderr.count(": complete"), 8)
        self.assertIn("4 of 4 trials", again.stdout)

    def test_parts_as_jobs(self):
        chosen = ("parts.yaml", "--data", "data", "--entries", "GCN,random", "--parts", "seen,left_out_in_turn")
        done = self.run_foretime("experiment", *chosen, "--submit").stdout
        self.assertIn("(parts/seen): 1 jobs added", done)
        self.assertIn("(parts/left_out_in_turn): 2 jobs added", done)
        self.run_foretime("agent", "--cpus", 2, "--until-empty", "--data-root", self.folder / "data")
        late = self.run_foretime("experiment", *chosen, "--collect", "--out", "jobs").stdout
        self.assertIn("2 of 2 trials", late)
        self.assertIn("4 of 4 trials", late)
        self.run_foretime("experiment", *chosen, "--out", "here")
        for part in ("seen", "left_out_in_turn"):
            one, two = (
                [row for row in self.rows(f"{out}/{part}/results.csv") if row["metric"] not in ("seconds", "memory")]
                for out in ("jobs", "here")
            )
            self.assertEqual(one, two)
            self.assertTrue(
                [
                    row
                    for row in self.rows(f"jobs/{part}/results.csv")
                    if row["metric"] == "memory" and row["entry"] == "GCN"
                ]
            )
        self.assertEqual(
            (self.folder / "jobs/submission.csv").read_text(), (self.folder / "here/submission.csv").read_text()
        )

    def test_what_is_wrong_is_said(self):
        self.expect_message(self.run_foretime("experiment", "parts.yaml", "--parts", "absent", code=3).stderr)
        self.expect_message(self.run_foretime("experiment", "parts.yaml", "--parts", "nowhere", code=2).stderr)
        packed = self.folder / "data/all.foretime"
        self.run_foretime("data", "pack", "-o", packed, self.collection / "train", "--format", "layout")
        self.write("parts.yaml", PARTS.replace("groups: [npz/layout/xla/default/train]", "groups: [all.foretime]"))
        self.expect_message(self.run_foretime("experiment", "parts.yaml", "--data", "data", code=3).stderr)

    @unittest.skipIf(
        data_dir() is None or not (data_dir() / "tpugraphs/npz").is_dir(),
        "skipped: no TpuGraphs in FORETIME_DATA or ../shared/data",
    )
    def test_the_shipped_protocol(self):
        from program import SOURCE

        shutil.copytree(SOURCE / "configs", self.folder / "configs")
        done = self.run_foretime(
            "experiment", "tpugraphs", "--data", data_dir() / "tpugraphs", "--quick", "--out", "out"
        )
        self.assertIn("layout_nlp_default is left out", done.stdout)
        for text in (done.stdout, (self.folder / "out/summary.md").read_text()):
            self.assertIn("variant quick: a smoke test, whose figures mean nothing", text)
        for part in ("layout_xla_default", "tile_from_pb"):
            self.assertTrue((self.folder / "out" / part / "summary.md").exists())
        ids = [line.split(",")[0] for line in (self.folder / "out/submission.csv").read_text().splitlines()]
        self.assertIn("layout:xla:default:cd708819d3f5103afd6460b15e74eaf3", ids)
