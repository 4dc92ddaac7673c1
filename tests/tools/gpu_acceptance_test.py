"""tools/gpu_acceptance.py: which folders it removes, which checks it runs, and what a kill leaves."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("FORETIME_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


class OutTest(unittest.TestCase):
    def run_in(self, out):
        return subprocess.run(
            [sys.executable, SOURCE / "tools/gpu_acceptance.py", "--out", out, "--broken", "build", out / "log"],
            capture_output=True,
            text=True,
        )

    def test_a_folder_that_it_did_not_make_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            (out / "log").write_text("failed\n")
            (out / "work").mkdir()
            (out / "work/thesis.txt").write_text("mine")
            done = self.run_in(out)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("work: found a folder that this program did not make", done.stderr)
            self.assertEqual((out / "work/thesis.txt").read_text(), "mine")

    def test_its_own_folder_is_made_anew(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            (out / "log").write_text("failed\n")
            self.run_in(out)
            (out / "work/rows.jsonl").write_text("{}")
            self.assertEqual(self.run_in(out).stderr, "")
            self.assertFalse((out / "work/rows.jsonl").exists())


# Writes one row for each check; "steps" ends only when its parent is gone.
STAND_IN = """#!/usr/bin/env python3
import json, os, sys, time
parent = os.getppid()
while sys.argv[1] == "steps" and os.getppid() == parent:
    time.sleep(0.05)
row = {"check": sys.argv[1], "what": "done", "kind": "must", "holds": True, "note": ""}
open(sys.argv[sys.argv.index("--rows") + 1], "w").write(json.dumps(row) + "\\n")
"""


class ChecksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "out"
        program = pathlib.Path(folder.name) / "program"
        program.write_text(STAND_IN)
        program.chmod(0o755)
        self.words = [
            sys.executable,
            SOURCE / "tools/gpu_acceptance.py",
            "--out",
            self.out,
            "--program",
            program,
            "--device",
            "cpu",
        ]

    def checks(self):
        return {
            row["check"]
            for row in json.loads((self.out / "acceptance.json").read_text())["rows"]
            if row["kind"] == "must"
        }

    def test_only_the_named_checks_run(self):
        done = subprocess.run([*self.words, "--only", "models,sums"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.checks(), {"facts", "models", "sums"})
        done = subprocess.run([*self.words, "--only", "model"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--only: found model, expected some of facts, context, models", done.stderr)

    def test_a_kill_leaves_the_results_of_the_checks_before(self):
        runner = subprocess.Popen(
            [*self.words, "--only", "models,steps"], stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            while not (self.out / "steps.txt").exists() and runner.poll() is None:
                time.sleep(0.02)
        finally:
            runner.kill()
            runner.wait()
        self.assertEqual(self.checks(), {"facts", "models"})


if __name__ == "__main__":
    unittest.main()
