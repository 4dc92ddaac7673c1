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
        self.write(
            "bad.json",
            '{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "tir.Add", "attrs": {"a": "1", "b": "9"}}]}',
        )
        for command in (("inspect", "bad.json"), ("pack-tir", "-o", "out.foretime", "bad.json")):
            done = self.run_foretime("data", *command, code=3)
            self.assertIn("bad.json", done.stderr)
            self.assertIn("node 1 (tir.Add): b: 9, expected one of the 2 nodes", done.stderr)
        self.assertFalse((self.folder / "out.foretime").exists())
        done = self.run_foretime("data", "pack-tir", "-o", "out.foretime", PROGRAMS, code=3)
        self.assertIn("found several texts (before_lowering, lowered), expected the name of one of them", done.stderr)
