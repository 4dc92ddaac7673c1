"""What cleaning removes: attempts that agents of one queue made, and nothing that lies next to them, whatever it is."""
import json
import os
import random
import re
import shutil
import unittest

from queue_case import SWEEP, QueueTest

FIRST_SEED = int(os.environ.get("FORETIME_CLEAN_SEED", "1"))
# The names of attempts, and of what an interrupted removal leaves of them.
EXACT = re.compile(r"attempt-\d+(-[A-Za-z0-9_-]{1,64})?(\.old-\d+\.foretime-tmp)?")
SEEDS = range(FIRST_SEED, FIRST_SEED + 8)


class CleanTest(QueueTest):
    """Two queues share a run root and have the same jobs: `A` and `B`."""

    def setUp(self):
        super().setUp()
        self.write(
            "base.yaml",
            (self.folder / "base.yaml").read_text().replace("steps: 6, eval_every: 3", "steps: 1, eval_every: 0"),
        )
        self.write_sweep(text=SWEEP)
        self.runs = self.folder / "runs"
        for queue in "AB":
            self.foretime("submit", "sweep.yaml", "--prefix", queue)
            self.finish(self.agent("--until-empty", "--prefix", queue))
        self.made = {path: json.loads((path / "attempt.json").read_text()) for path in self.runs.glob("*/attempt-*")}
        self.assertEqual(len(self.made), 4)
        self.queues = {}  # by prefix: the identity
        for path, mark in self.made.items():
            self.queues["A" if path.name == "attempt-1" else "B"] = mark["queue"]
        self.assertEqual(len(set(self.queues.values())), 2)

    def snapshot(self):
        return {path: path.lstat().st_mode for path in sorted(self.runs.rglob("*")) if ".redis" not in path.parts}

    def scatter(self, chance):
        """Puts random things next to the attempts. Returns the folders that agents could have made: path to (job, queue)."""
        real = {}
        jobs = sorted({path.parent for path in self.made})
        for number in range(25):
            job = chance.choice(jobs)
            name = chance.choice(
                [
                    f"attempt-{chance.randrange(4)}",
                    f"attempt-{chance.randrange(4)}-{chance.choice(['t', 'my-notes', 'abc'])}",
                    f"attempt-{chance.randrange(4)} (copy)",
                    f"attempt-{chance.randrange(4)}.keep",
                    f"attempt-{number}x",
                    "attempt-",
                    f"attempt-0.old-{number}.foretime-tmp",
                    f"attempt-0-x.old-{number}.foretime-tmp",
                    "attempt-0.old-a.foretime-tmp",
                    f"notes-{number}",
                    "paper.tex",
                    f"{number}.foretime-tmp",
                ]
            )
            path = job / name
            if os.path.lexists(path):
                continue
            kind = chance.choice(
                ["folder", "marked", "marked", "marked", "copy", "file", "link", "other job", "fifo", "broken mark"]
            )
            if kind == "file":
                path.write_text("mine")
                continue
            if kind == "link":
                path.symlink_to(chance.choice(list(self.made)))
                continue
            if kind == "fifo":
                os.mkfifo(path)
                continue
            if kind == "copy":
                shutil.copytree(chance.choice(list(self.made)), path)
                continue
            path.mkdir()
            (path / "paper.tex").write_text("mine")
            mark = {"job": job.name, "queue": self.queues[chance.choice("AB")], "attempt": name.split(".old-")[0]}
            if kind == "other job":
                mark["job"] = next(other.name for other in jobs if other != job)
            if kind == "broken mark":
                (path / "attempt.json").write_text(json.dumps(mark)[: -chance.randrange(1, 20)])
            if kind in ("marked", "other job"):
                (path / "attempt.json").write_text(json.dumps(mark))
            if kind == "marked" and EXACT.fullmatch(name):
                real[path] = mark["queue"]
        return real

    def test_nothing_but_attempts_of_this_queue_is_removed(self):
        for seed in SEEDS:
            chance = random.Random(seed)
            real = {**{path: mark["queue"] for path, mark in self.made.items()}, **self.scatter(chance)}
            queue = chance.choice("AB")
            before = self.snapshot()
            options = ("--keep", "0", "--days", "0", "--forgotten", "0", "--prefix", queue)
            shown = self.foretime("clean", *options).splitlines()[:-1]
            self.assertEqual(self.snapshot(), before, f"seed {seed}: only named")
            self.foretime("clean", *options, "--remove")
            gone = set(before) - set(self.snapshot())
            roots = {path for path in gone if path.parent not in gone}
            with self.subTest(seed=seed):
                self.assertEqual({str(path.relative_to(self.folder)) for path in roots}, set(shown))
                self.assertEqual(
                    {path for path in roots if real.get(path) != self.queues[queue]},
                    set(),
                    "made by nobody, or for another queue",
                )
                kept = {
                    job: [
                        path
                        for path in real
                        if path.parent == job and path not in gone and real[path] == self.queues[queue]
                    ]
                    for job in {path.parent for path in real}
                }
                for job, attempts in kept.items():
                    self.assertTrue(
                        attempts
                        or not [path for path in real if path.parent == job and real[path] == self.queues[queue]],
                        f"{job}: the newest attempt of a job that the queue knows stays",
                    )
                self.assertEqual(set(self.snapshot()) - set(before), set())
            for path in list(self.runs.glob("*/*")):
                if path not in self.made:
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def test_agents_clean_as_the_command_does(self):
        job = next(iter(self.made)).parent
        for name, mark in (
            ("attempt-0", "attempt-0"),
            ("attempt-0-next", "attempt-0-next"),
            ("attempt-0-mine", "attempt-1"),
            ("attempt-1 (copy)", "attempt-1"),
            ("attempt-0.keep", None),
        ):
            (job / name).mkdir()
            (job / name / "paper.tex").write_text("mine")
            if mark:
                (job / name / "attempt.json").write_text(
                    json.dumps({"job": job.name, "queue": self.queues["A"], "attempt": mark})
                )
        for path in (*job.rglob("*"), *job.iterdir()):
            os.utime(path, (0, 0), follow_symlinks=False)
        agent = self.agent("--clean-attempts", 1, "--prefix", "A")
        self.wait_for("the marked one to go", lambda: not (job / "attempt-0").exists())
        agent.terminate()
        self.finish(agent)
        kept = sorted(path.name for path in job.iterdir())
        self.assertEqual(len(kept), 6, kept)
        for name in ("attempt-0-next", "attempt-0-mine", "attempt-1 (copy)", "attempt-0.keep"):
            self.assertTrue((job / name / "paper.tex").exists())


if __name__ == "__main__":
    unittest.main()
