"""What tools/tuner/tuner_search.py prints of the searches that it has."""
import argparse
import contextlib
import io
import sys
import time

from support import ROOT, FolderTest

sys.path.insert(0, str(ROOT / "tools" / "tuner"))
from tuner_measuring import Clock  # noqa: E402
from tuner_tasks import TASKS, host_target  # noqa: E402
from tuner_trials import append_rows, read_rows, replace_rows, table  # noqa: E402


def rows(task, model, seed, reached):
    """Rows of a search that reached these milliseconds after 16 and 32 trials."""
    return [
        {
            "task": task,
            "model": model,
            "seed": seed,
            "trial": trial,
            "seconds": "1",
            "best_seconds": "1",
            "verified_seconds": f"{1e-3 * reached[0 if trial == 16 else 1]}" if trial in (16, 32) else "",
            "search_seconds": f"{trial}",
            "search_cpu_seconds": f"{2 * trial}",
        }
        for trial in range(1, 33)
    ]


class TableTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.out = str(self.folder / "out.csv")

    def printed(self, compare=None, tasks=tuple(TASKS)):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            table(argparse.Namespace(out=self.out, compare=compare, tasks=tasks))
        return text.getvalue()

    def test_relative_to_the_best_known(self):
        for seed, factor in ((1, 1.0), (2, 2.0)):
            append_rows(self.out, rows("dense", "xgb", seed, (8.0, 4.0)))
            append_rows(self.out, rows("softmax", "xgb", seed, (1.0, 1.0)))
            append_rows(self.out, rows("dense", "foretime", seed, (2.0, 2.0 * factor)))
            append_rows(self.out, rows("softmax", "foretime", seed, (4.0, 2.0 * factor)))
        printed = self.printed()
        self.assertIn("2 tasks, 2 seeds", printed)
        self.assertIn("| xgb | 2.000 ± 0.000 | 1.414 ± 0.000 | 32.0 | 64.0 |", printed)
        self.assertIn("| foretime | 2.000 ± 0.000 | 2.121 ± 1.000 | 32.0 | 64.0 |", printed)
        self.assertIn("| dense | 2.000 | 4.000 | 3.000 |", printed)

    def test_only_seeds_that_all_models_have_done(self):
        for seed in (1, 2):
            append_rows(self.out, rows("dense", "xgb", seed, (2.0, 1.0)))
        append_rows(self.out, rows("dense", "random", 1, (2.0, 2.0)))
        printed = self.printed()
        self.assertIn("1 tasks, 1 seeds", printed)
        self.assertIn("| random | 2.000 | 2.000 |", printed)
        self.assertIn("1 tasks, 2 seeds", self.printed(["xgb"]))
        with self.assertRaisesRegex(SystemExit, "--compare foretime: .*out.csv has searches of xgb, random"):
            self.printed(["xgb", "foretime"])

    def test_a_shorter_search_of_another_model_takes_no_column(self):
        append_rows(self.out, rows("dense", "xgb", 1, (2.0, 1.0)))
        append_rows(self.out, rows("dense", "random", 1, (2.0, 2.0))[:16])
        self.assertIn("| model | 16 trials | search, s", self.printed())
        self.assertIn("| model | 16 trials | 32 trials |", self.printed(["xgb"]))

    def test_of_some_tasks(self):
        append_rows(self.out, rows("dense", "xgb", 1, (2.0, 1.0)))
        append_rows(self.out, rows("softmax", "xgb", 1, (2.0, 1.0)))
        printed = self.printed(tasks=["softmax"])
        self.assertIn("1 tasks, 1 seeds", printed)
        self.assertNotIn("dense", printed)

    def test_rows_are_replaced(self):
        append_rows(self.out, rows("dense", "xgb", 1, (2.0, 1.0)))
        found = read_rows(self.out)
        self.assertEqual(len(found), 32)
        found[31]["verified_seconds"] = "0.0005"
        replace_rows(self.out, found)
        self.assertEqual(read_rows(self.out), found)
        self.assertIn("| dense | 0.500 |", self.printed())

    def test_nothing_complete(self):
        with self.assertRaisesRegex(SystemExit, "no complete search"):
            self.printed()

    def test_clock_leaves_pauses_out(self):
        clock = Clock()
        clock.pause()
        paused = clock.read()
        self.assertEqual(clock.mark, paused)
        sum(range(200000))
        self.assertEqual(clock.read(), paused)
        resumed = time.perf_counter()
        clock.resume()
        counted = clock.read()[0] - paused[0]
        self.assertLessEqual(counted, time.perf_counter() - resumed, "the pause counts")
        clock.pause()
        self.assertEqual(clock.mark, paused)

    def test_the_target_is_one_that_the_installed_llvm_knows(self):
        old, new = host_target(14), host_target(16)
        self.assertRegex(old, "^llvm( -mcpu=(skylake-avx512|core-avx2))?$")
        self.assertRegex(new, "^llvm( -mcpu=(znver4|skylake-avx512|core-avx2))?$")
