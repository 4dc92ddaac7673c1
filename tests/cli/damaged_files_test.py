"""One damaged file of a run never hides the rest of it, or other runs: every file, kinds of damage, and every reader."""
import http.client
import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.parse

from program import FORETIME, HAS_BOARD, LIMIT, ProgramTest, environment

SECRET = "what-is-private"
# What readers may end with: done, wrong settings, damaged data, a storage that fails.
CODES = {0, 2, 3, 74}
READ_BY_TRAINING = (
    "config.yaml",
    "data.json",
    "metrics.jsonl",
    "log.txt",
    "checkpoints/best.json",
    "checkpoints/step-00000006/manifest.json",
    "checkpoints/step-00000006/state.json",
    "checkpoints/step-00000006/model.safetensors",
)


class DamagedFilesTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train(trainer__eval_every=3, trainer__baselines="[mean]", run__directory="runs/whole")
        self.run_foretime(
            "train",
            "--quiet",
            "--profile",
            "settings.yaml",
            *self.settings(trainer__eval_every=3, trainer__baselines="[mean]", run__directory="runs/run"),
        )
        self.run = self.folder / "runs/run"
        shutil.copytree(self.run, self.folder / "kept")
        self.write("private.txt", f"kind: {SECRET}\n")

    def damages(self, path):
        """What happens to a file, and how."""
        data = path.read_bytes()
        return {
            "gone": lambda: None,
            "empty": lambda: path.write_bytes(b""),
            "cut": lambda: path.write_bytes(data[: len(data) // 2]),
            "bytes": lambda: path.write_bytes(b"\xff\xfe\x00\x1b[31m" * 50),
            "another type": lambda: path.write_text('[[{"a": null}], 1e999]\n'),
            "huge numbers": lambda: path.write_bytes(re.sub(rb"\b\d+\b", b"9" * 30, data)),
            "a folder": path.mkdir,
            "a FIFO": lambda: os.mkfifo(path),
            "a link": lambda: path.symlink_to(self.folder / "private.txt"),
            "a link to itself": lambda: path.symlink_to(path.name),
        }

    def damage(self, name, only=()):
        """Damages one file after another way, each time of a whole run."""
        for how, _ in self.damages(self.folder / "kept" / name).items():
            if only and how not in only:
                continue
            shutil.rmtree(self.run)
            shutil.copytree(self.folder / "kept", self.run)
            apply = self.damages(self.run / name)[how]
            (self.run / name).unlink()
            apply()
            yield how

    def read(self, *arguments):
        """The exit code, and what is printed."""
        done = subprocess.run(
            [FORETIME, *map(str, arguments)], env=environment(), cwd=self.folder, capture_output=True, timeout=LIMIT
        )
        text = (done.stdout + done.stderr).decode(errors="replace")
        self.assertIn(done.returncode, CODES, f"{arguments}\n{text[-2000:]}")
        for word in (SECRET, "\x1b", "internal error", "std::", "terminate called"):
            self.assertNotIn(word, text)
        if done.returncode:
            self.assertTrue(done.stderr.strip(), "a refusal has a message")
        return done.returncode, done.stdout.decode(errors="replace")

    def files(self):
        names = sorted(
            str(path.relative_to(self.folder / "kept")) for path in (self.folder / "kept").rglob("*") if path.is_file()
        )
        self.assertGreater(len(names), 15)
        return names

    def test_readers_of_curves_and_tables(self):
        history = self.read("history", "runs/run", "--json")
        board = Board(self) if HAS_BOARD else None
        whole = board.get("/api/run", name="run") if board else None
        for name in self.files():
            for how in self.damage(name):
                with self.subTest(file=name, damage=how):
                    found = self.read("history", "runs/run", "--json")
                    if name not in ("metrics.jsonl", "data.json"):
                        self.assertEqual(found, history)
                    if board:
                        self.assertEqual(
                            self.read("report", "runs", "-o", "report.html", "--force")[0], 0, "other runs are reported"
                        )
                        page = (self.folder / "report.html").read_text(errors="strict")
                        self.assertIn("whole", page)
                        self.assertNotIn(SECRET, page)
                        self.assertLessEqual({"whole"}, {run["name"] for run in board.get("/api/runs")["runs"]})
                        shown = board.get("/api/run", name="run")
                        if name != "metrics.jsonl":
                            self.assertEqual(shown["history"], whole["history"])
                        for part, file in (
                            ("settings", "config.yaml"),
                            ("comparison", "comparison.txt"),
                            ("profile", "profile.txt"),
                        ):
                            if name != file:
                                self.assertEqual(shown[part], whole[part])
                        for path in ("/api/rankings", "/api/experiment"):
                            board.get(path, any_status=True, name="run")
                        for file in (
                            "config.yaml",
                            "metrics.jsonl",
                            "rankings.csv",
                            "comparison.txt",
                            "trace.json",
                            "profile.txt",
                        ):
                            board.text("/api/file", name="run", file=file)

    def test_readers_of_checkpoints(self):
        for name in READ_BY_TRAINING:
            for how in self.damage(name, only=("cut", "another type", "a FIFO", "a link")):
                with self.subTest(file=name, damage=how):
                    self.read("evaluate", "runs/run")
                    self.read(
                        "train",
                        "--quiet",
                        "settings.yaml",
                        *self.settings(trainer__eval_every=3, trainer__baselines="[mean]", run__directory="runs/run"),
                    )


class Board:
    """The board of the folder with the runs."""

    def __init__(self, test):
        self.test, self.asked = test, 0
        process = subprocess.Popen(
            [FORETIME, "board", "runs", "--port", "0"],
            env=environment(),
            cwd=test.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        test.addCleanup(process.communicate)
        test.addCleanup(process.kill)
        port, self.token = re.search(r"127\.0\.0\.1:(\d+)/#token=(\w+)", process.stdout.readline()).groups()
        self.connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=LIMIT)
        test.addCleanup(self.connection.close)

    def text(self, path, **query):
        """Status and text of an answer, which is never older than this question."""
        self.asked += 1
        self.connection.request(
            "GET",
            f"{path}?{urllib.parse.urlencode({**query, 'not': self.asked})}",
            headers={"Authorization": "Bearer " + self.token},
        )
        answer = self.connection.getresponse()
        body = answer.read().decode(errors="replace")
        self.connection.close()  # the board closes a connection that is idle for 30 s
        self.test.assertNotIn(SECRET, body)
        self.test.assertNotEqual(answer.status, 500, body[:500])
        return answer.status, body

    def get(self, path, any_status=False, **query):
        status, body = self.text(path, **query)
        self.test.assertTrue(any_status or status == 200, (path, query, status, body[:500]))
        self.test.assertNotIn("\x1b", body)
        return json.loads(body)


if __name__ == "__main__":
    unittest.main()
