"""Tensor programs as TVM's own text, and the trees that models are compared with."""
import json

import numpy

from program import SAMPLES, ProgramTest

PROGRAMS = SAMPLES.parent / "tir/resnet18_conv2d_save_json.jsonl.gz"


class TensorProgramsTest(ProgramTest):
    def test_inspect_says_what_is_in_save_json_text(self):
        text = self.run_foretime("data", "inspect", PROGRAMS).stdout
        for part in ("24 records of 12 workloads", "0.14.0 (24)", "unknown types  none"):
            self.assertIn(part, text)
        report = self.json_of("data", "inspect", "--json", PROGRAMS)
        self.assertEqual(report["members"]["before_lowering"]["trees"], 24)
        self.assertEqual(report["failures"], 0)

    def test_a_model_of_packed_trees_scores_tvms_text_alike(self):
        self.train()
        self.run_foretime("data", "pack-tir", "-o", "text.foretime", PROGRAMS, "--member", "before_lowering")
        self.run_foretime("data", "verify", "text.foretime")
        scores = {}
        for name in ("text.foretime", SAMPLES / "C1.npz"):
            rows = self.rows_of(self.run_foretime("rank", "run", name).stdout)
            scores[str(name)] = {row["id"]: float(row["score"]) for row in rows if row["id"].startswith("C1_")}
        text, trees = scores["text.foretime"], scores[str(SAMPLES / "C1.npz")]
        self.assertEqual(len(text), 2)
        for program, score in text.items():
            self.assertAlmostEqual(score, trees[program], places=5)

    def test_text_that_is_damaged_is_named(self):
        self.write("bad.json", '{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "tir.Add", "attrs": {"a": "1", "b": "9"}}]}')
        for command in (("inspect", "bad.json"), ("pack-tir", "-o", "out.foretime", "bad.json")):
            done = self.run_foretime("data", *command, code=3)
            self.assertIn("bad.json", done.stderr)
            self.assertIn("node 1 (tir.Add): b: 9, expected one of the 2 nodes", done.stderr)
        self.assertFalse((self.folder / "out.foretime").exists())
        done = self.run_foretime("data", "pack-tir", "-o", "out.foretime", PROGRAMS, code=3)
        self.assertIn("before_lowering, lowered: name one of them", done.stderr)

    def test_xgboost_over_statements(self):
        random = numpy.random.default_rng(3)
        programs, workloads = 400, 10
        features = random.random((programs, 5), dtype=numpy.float32)
        numpy.savez(self.folder / "features.npz", X=features, ptr=numpy.arange(programs + 1), task=numpy.arange(programs) % workloads,
                    y=1 / (0.1 + features[:, 0].astype(numpy.float64)))
        arguments = ("baseline", "xgboost", "statements", "--train", "features.npz", "--preset", "pairs", "--rounds", "60", "--json")
        report = self.json_of(*arguments, "--save", "model.ubj")
        self.assertEqual(report["mean_score"]["workloads"], 2)
        self.assertGreater(report["mean_score"]["kendall_tau"], 0.8)
        self.assertEqual(report, self.json_of(*arguments))
        self.assertGreater((self.folder / "model.ubj").stat().st_size, 1000)

    def test_xgboost_over_records(self):
        ansor = SAMPLES.parent / "ansor"
        arguments = ("baseline", "xgboost", "statements", "--records", ansor / "records.jsonl.gz", "--dags", ansor / "dags.jsonl.gz",
                     "--rounds", "20", "--json")
        report = self.json_of(*arguments, "--per-workload", "30")["mean_score"]
        self.assertEqual((report["workloads"], report["programs"]), (10, 287))
        self.assertGreater(report["kendall_tau"], 0.25)
        lines = {"train_lines": {"all": list(range(400))}, "eval_lines": {"all": list(range(400, 800))}}
        self.write("split.json", json.dumps(lines))
        report = self.json_of(*arguments, "--split", "split.json")["mean_score"]
        self.assertEqual((report["workloads"], report["programs"]), (49, 400))
        self.write("split.json", json.dumps({**lines, "eval_lines": {"all": [4836]}}))
        done = self.run_foretime(*arguments, "--split", "split.json", code=3)
        self.assertIn("400 of the 401 requested lines", done.stderr)
        done = self.run_foretime("baseline", "xgboost", "statements", "--records", ansor / "records.jsonl.gz", code=2)
        self.assertIn("--dags", done.stderr)

    def test_xgboost_over_loops(self):
        ids = numpy.concatenate([numpy.load(SAMPLES / f"{name}.npz")["id"] for name in ("C1", "C11", "C12")])
        rows = numpy.random.default_rng(5).random((len(ids), 4), dtype=numpy.float32)
        numpy.savez(self.folder / "loops.npz", features=rows.ravel(), row_splits=4 * numpy.arange(len(ids) + 1), id=ids)
        files = [SAMPLES / f"{name}.npz" for name in ("C1", "C11", "C12")]
        report = self.json_of("baseline", "xgboost", "loops", "--features", "loops.npz", "--programs", *files, "--given",
                                              "C1,C12", "--share", "0.5,1", "--json")
        self.assertEqual([run["share"] for run in report], [0.5, 1.0])
        self.assertEqual(report[0]["test"], len(numpy.load(SAMPLES / "C11.npz")["id"]))
        done = self.run_foretime("baseline", "xgboost", "loops", "--features", "loops.npz", "--programs", *files, "--given", "C2", code=2)
        self.assertIn("workload 'C2', expected one of C1, C11, C12", done.stderr)
