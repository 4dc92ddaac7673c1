"""What commands show on a terminal, in tmux at two sizes, and without one."""
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import threading
import unittest

from program import FORETIME, SAMPLES, ProgramTest, environment, wait_until
from queue_case import BASE

SWEEP = """
name: a sweep with a name that is longer than what a narrow window has room for
settings: base.yaml
method: grid
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {values: [8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}
  model.layers: {values: [1, 2, 3]}
"""


@unittest.skipUnless(shutil.which("tmux"), "tmux is missing: tools/install-deps.sh --tests")
class TerminalTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.windows = 0
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))

    def tmux(self, *arguments, check=True):
        return subprocess.run(
            ["tmux", "-f", "/dev/null", "-L", f"{self.folder.name}-{self.windows}", *map(str, arguments)],
            env=environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=check,
        ).stdout

    def window(self, command, columns, lines):
        """A shell in a window of this size that begins a command; says DONE and its exit code after it."""
        self.tmux("kill-server", check=False)
        self.windows += 1  # each has a server of its own: one that ends takes no more windows
        self.addCleanup(self.tmux, "kill-server", check=False)
        self.tmux("new-session", "-d", "-x", columns, "-y", lines, "env PS1='$ ' sh")
        wait_until(lambda: "$" in self.screen())
        self.keys(f"clear; echo BEFORE; {command}; echo DONE $?", "Enter")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def screen(self, joined=False):
        """As it is seen; `joined`: lines that the terminal has wrapped are one."""
        return self.tmux("capture-pane", "-p", *(["-J"] if joined else []))

    def check_fits(self, columns, lines):
        joined = [line.rstrip() for line in self.screen(joined=True).splitlines()]
        self.assertLessEqual(max(map(len, joined)), columns, "a line was wrapped: " + max(joined, key=len))
        seen = self.screen()
        self.assertLessEqual(len(seen.splitlines()), lines)
        return seen

    def test_status_that_watches(self):
        self.write("sweep.yaml", SWEEP)
        sweep = self.json_of("submit", "sweep.yaml", "--json")["sweep"]
        self.window(f"{FORETIME} status --watch=0.3 --limit 8", 80, 40)
        self.assertTrue(wait_until(lambda: re.match(r"\d\d:\d\d:\d\d\n", self.screen())), self.screen())
        first = self.screen().splitlines()[0]
        self.assertTrue(
            wait_until(lambda: self.screen().splitlines()[0] != first), "it is shown in the same place again"
        )
        self.assertIn("waiting", self.check_fits(80, 40))
        self.keys("C-c")
        self.window(f"{FORETIME} status {sweep} --limit 8", 80, 40)
        self.assertTrue(wait_until(lambda: "DONE 0" in self.screen()), self.screen())
        table = [line for line in self.check_fits(80, 40).splitlines() if "waiting" in line or "progress" in line]
        self.assertEqual(len(table), 1 + 8 + 1, table)

    def test_without_a_terminal_tables_are_whole_and_plain(self):
        self.write("sweep.yaml", SWEEP)
        self.run_foretime("submit", "sweep.yaml")
        jobs = self.json_of("status", "--json")["jobs"]
        text = self.run_foretime("status").stdout
        self.assertNotIn("\033", text)
        for job in jobs:
            self.assertIn(job["id"], text)
        watched = self.start("status", "--watch=0.2")
        lines = [watched.stdout.readline() for _ in range(60)]
        watched.terminate()
        watched.communicate()
        self.assertNotIn("\033", "".join(lines))
        self.assertGreaterEqual(sum(bool(re.match(r"\d\d:\d\d:\d\d$", line)) for line in lines), 1)

    def test_training(self):
        for columns, lines in ((80, 24), (120, 40)):
            with self.subTest(columns=columns):
                self.window(
                    f"{FORETIME} train base.yaml run.directory=run{columns} trainer.steps=400 trainer.log_every=1 trainer.eval_every=400 > out.txt",
                    columns,
                    lines,
                )
                self.assertTrue(
                    wait_until(lambda: re.search(r"step \d\d+/400 +loss .* eta ", self.screen())), self.screen()
                )
                for _ in range(8):
                    seen = self.check_fits(columns, lines)
                    if "DONE" in seen:
                        break
                    # One line of progress, drawn over again, in what is left of the window.
                    self.assertEqual(len(re.findall(r"loss ", seen)), 1, seen)
                self.assertTrue(wait_until(lambda: "DONE 0" in self.screen()), self.screen())
                self.check_fits(columns, lines)

    def test_training_without_a_terminal(self):
        done = self.run_foretime("train", "base.yaml", "run.directory=run")
        begin = done.stdout.split("\n\n")[0].splitlines()
        self.assertEqual(
            [line.split()[0] for line in begin],
            ["data", "train", "test", "model", "loss", "steps", "metric", "ranks", "run"],
        )
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertNotIn("\r", done.stdout + done.stderr)
        self.assertIn("gcn: step 6/6  loss ", done.stderr)
        settings = (self.folder / "run/config.yaml").read_text()
        said = self.run_foretime("train", "--verbose", "base.yaml", "run.directory=other").stdout
        self.assertIn(settings.split("\n", 1)[1].split("run:")[0], said)  # without the line that marks a run
        self.assertNotIn(
            "config.yaml", self.run_foretime("train", "--quiet", "base.yaml", "run.directory=third").stdout
        )


class WidthTest(ProgramTest):
    """On a terminal of 80 columns no command needs more, and nothing is lost."""

    def setUp(self):
        super().setUp()
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))

    def on_terminal(self, *arguments, columns=80):
        terminal, output = pty.openpty()
        fcntl.ioctl(output, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        said = []

        def read():
            while True:
                try:
                    piece = os.read(terminal, 1 << 16)
                except OSError:  # nobody writes any more
                    return
                if not piece:
                    return
                said.append(piece)

        reader = threading.Thread(target=read)
        reader.start()
        done = subprocess.run(
            [FORETIME, *map(str, arguments)],
            env=environment(),
            cwd=self.folder,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(output)
        reader.join()
        os.close(terminal)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = b"".join(said).decode().replace("\r\n", "\n")
        longest = max(text.splitlines(), key=len, default="")
        self.assertLessEqual(len(longest), columns, f"{arguments}: {longest}")
        return text

    def test_tables_and_texts_fit(self):
        training = self.on_terminal("train", "base.yaml", "run.directory=run", "data.test=[C10.npz]")
        for word in ("Kendall", "top-1 slowdown", "l1 / mean", "run directory: run"):
            self.assertIn(word, training)
        self.assertIn("noise ceiling", (self.folder / "run/comparison.txt").read_text())
        for arguments, words in (
            (("evaluate", "run"), ("top-1 slowdown", "l1 / mean")),
            (("history", "run"), ("series", "last", "▁")),
            (("plan", "base.yaml", "--verbose"), ("speed-up", "heaviest groups")),
            (("plan", "base.yaml"), ("speed-up",)),
            (("data", "inspect", SAMPLES / "C1.npz"), ("candidates", "run times")),
            (("--help",), ("train", "Exit codes")),
            (("submit", "--help"), ("--dry-run",)),
            (("doctor",), ("LibTorch", "mpirun")),
        ):
            text = self.on_terminal(*arguments)
            for word in words:
                self.assertIn(word, text, arguments)

    def test_tables_of_sweeps_fit(self):
        keys = [f"optimizer.{name}" for name in ("learning_rate", "weight_decay", "clip_norm")] + ["model.dropout"]
        self.write(
            "sweep.yaml",
            "name: sw\nsettings: base.yaml\nmethod: random\nrun_cap: 2\nmetric: {name: holdout/mae, goal: minimize}\nparameters:\n"
            + "".join(f"  {key}: {{min: 1.0e-4, max: 1.0e-2}}\n" for key in keys),
        )
        plain = self.run_foretime("submit", "sweep.yaml", "--dry-run").stdout
        self.assertNotRegex(plain, r"0\.\d{7}", "four significant digits")
        values = re.findall(r"0\.0\d+", plain)
        self.assertEqual(len(values), 8)
        shown = self.on_terminal("submit", "sweep.yaml", "--dry-run")
        self.run_foretime("submit", "sweep.yaml")
        self.run_foretime("agent", "--until-empty", "--data-root", SAMPLES)
        best = self.on_terminal("leaderboard")
        for text in (shown, best):
            for word in (*keys, *values):
                self.assertIn(word, text)
        self.assertNotRegex(self.run_foretime("leaderboard").stdout, r"0\.\d{8}")
        exact = self.json_of("leaderboard", "--json")["rows"][0]["trials"][0]
        self.assertRegex(exact["parameters"]["model.dropout"], r"0\.00\d{8}", "exact for programs")
        job = self.on_terminal("status", exact["job"])
        self.assertNotRegex(job.split("settings")[0], r"0\.\d{8}")
        self.on_terminal("status")
        self.on_terminal("queue")


if __name__ == "__main__":
    unittest.main()
