"""The program of docs/how-to/tune-with-tvm.md, as it stands but for fewer trials. Needs TVM on PYTHONPATH."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ROOT


class TuneWithTvmTest(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("tvm"), "needs TVM")
    @unittest.skipUnless(os.environ.get("FORETIME_TEST_BUNDLE"), "needs FORETIME_TEST_BUNDLE")
    def test_the_program_of_the_documentation(self):
        page = (ROOT / "docs" / "how-to" / "tune-with-tvm.md").read_text()
        program = re.search(r"## 2\. Use it in auto_scheduler.*?```python\n(.*?)```", page, re.DOTALL).group(1)
        self.assertEqual(program.count("num_measure_trials=64"), 1)
        program = program.replace("num_measure_trials=64", "num_measure_trials=3")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copyfile(os.environ["FORETIME_TEST_BUNDLE"], pathlib.Path(folder, "model.foretime"))
            path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
            done = subprocess.run(
                [sys.executable, "-c", program],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path},
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace")[-2000:])
            self.assertEqual(len(pathlib.Path(folder, "log.json").read_text().splitlines()), 3)


if __name__ == "__main__":
    unittest.main()
