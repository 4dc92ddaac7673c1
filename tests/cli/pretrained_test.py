"""Bundles that are named without a path: where they are looked for, and that every command takes them."""
import gzip
import json
import os
import shutil
import unittest

from bundles import BundleTest
from program import SOURCE, ProgramTest

RECORDS = SOURCE / "samples" / "ansor" / "records.jsonl.gz"
DAGS = SOURCE / "samples" / "ansor" / "dags.jsonl.gz"
SHIPPED = SOURCE / "pretrained" / "x86-cpu.foretime"


class PretrainedTest(BundleTest):
    def setUp(self):
        super().setUp()
        self.there = self.folder / "models"
        self.there.mkdir()
        self.bundle = next(path for path in sorted(self.folder.glob("*.foretime")) if "loops" in path.name)
        shutil.copy(self.bundle, self.there / "of-loops.foretime")
        self.named = {"FORETIME_PRETRAINED": str(self.there)}

    def test_names_stand_for_files(self):
        listed = json.loads(self.run_foretime("pretrained", "list", "--json", **self.named).stdout)
        self.assertEqual([item["name"] for item in listed], ["of-loops"])
        self.assertEqual(listed[0]["bytes"], self.bundle.stat().st_size)
        self.assertIn("of-loops", self.run_foretime("pretrained", "list", **self.named).stdout)
        shown = self.run_foretime("bundle", "show", "of-loops", **self.named).stdout
        self.assertEqual(shown, self.run_foretime("bundle", "show", self.bundle).stdout)

    def test_a_file_of_that_name_comes_first(self):
        (self.folder / "of-loops").write_text("no bundle")
        self.assertIn("of-loops", self.run_foretime("bundle", "show", "of-loops", code=3, **self.named).stderr)

    def test_a_name_that_is_none_is_told_with_the_nearest(self):
        message = self.run_foretime("bundle", "show", "of-loop", code=3, **self.named).stderr
        self.assertIn("did you mean of-loops?", message)
        message = self.run_foretime("rank", "zzzzzzzz", RECORDS, "--dags", DAGS, code=3, **self.named).stderr
        self.assertIn("expected one of of-loops", message)
        message = self.run_foretime(
            "bundle", "show", "of-loops", code=3, FORETIME_PRETRAINED=str(self.folder / "nothing")
        ).stderr
        self.assertIn("no pretrained models are installed", message)

    def test_tuning_one_writes_another_file(self):
        before = (self.there / "of-loops.foretime").read_bytes()
        for out in (self.there / "of-loops.foretime", "models/../models/of-loops.foretime"):
            for model in ("of-loops", self.there / "of-loops.foretime"):
                done = self.run_foretime("finetune", model, RECORDS, "--dags", DAGS, "-o", out, code=2, **self.named)
                self.assertIn("is an input of this command", done.stderr)
        self.assertEqual((self.there / "of-loops.foretime").read_bytes(), before)


@unittest.skipUnless(SHIPPED.exists(), "no pretrained/x86-cpu.foretime")
class ShippedTest(ProgramTest):
    def test_it_scores_as_its_card_says(self):
        """pretrained/x86-cpu.scores.json: lines of samples/ansor/records.jsonl.gz and what the model said of them when it was made."""
        expected = json.loads((SOURCE / "pretrained" / "x86-cpu.scores.json").read_text())
        environment = {"FORETIME_PRETRAINED": str(SHIPPED.parent)} if os.environ.get("FORETIME") else {}
        rows = self.rows_of(self.run_foretime("rank", "x86-cpu", RECORDS, "--dags", DAGS, **environment).stdout)
        scores = {row["id"]: float(row["score"]) for row in rows}
        for line, score in expected.items():
            self.assertAlmostEqual(scores[line], score, delta=1e-3 * max(1, abs(score)), msg=f"line {line}")

    def test_it_is_small_and_says_its_terms(self):
        self.assertLess(SHIPPED.stat().st_size, 4 << 20)
        listed = {item["name"]: item for item in self.json_of("pretrained", "list", "--json")}
        self.assertIn("x86-cpu", listed, "found in the source tree that the program was built in")
        self.assertEqual(listed["x86-cpu"]["licence"], "Apache-2.0")
        self.assertGreaterEqual(len(listed["x86-cpu"]["machines"]), 2)
        shown = json.dumps(self.json_of("bundle", "show", SHIPPED))
        self.assertNotRegex(shown, r"""[ \["]/[a-z]+/""", "paths of the machine that made it")

    def test_it_is_tuned_where_files_of_the_user_are_confined(self):
        """--confine is for what the user names: the bundle lies where Foretime is installed."""
        with gzip.open(RECORDS, "rt") as file:
            self.write("new.jsonl", "".join(line for line in file if "softmax" in line))
        self.write("dags.jsonl", gzip.decompress(DAGS.read_bytes()).decode())
        tune = (
            "new.jsonl",
            "--dags",
            "dags.jsonl",
            "--confine",
            self.folder,
            "--steps",
            2,
            "--take-worse",
            "-o",
            "tuned.foretime",
        )
        named = {"FORETIME_PRETRAINED": str(SHIPPED.parent)}
        self.assertIn("tuned from x86-cpu", self.run_foretime("finetune", "x86-cpu", *tune, **named).stdout)
        self.assertIn("lies outside", self.run_foretime("finetune", SHIPPED, *tune, code=3, **named).stderr)
