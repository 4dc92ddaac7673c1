"""tools/gpu_acceptance.py: which folders it removes."""
import os
import pathlib
import subprocess
import sys
import tempfile
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


if __name__ == "__main__":
    unittest.main()
