"""Files in run directories that nobody expects there: FIFOs, links, devices. They hang nothing and publish nothing."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from program import FORETIME, HAS_BOARD, LIMIT, NO_BOARD, ProgramTest, environment
from queue_case import QueueTest

SECRET = "BOARD-OWNER-SECRET"
SWEEP = """
name: NAME
program: NAME.py
method: grid
metric: {name: val_loss, goal: minimize}
parameters:
  a: {values: [1]}
"""
# Reports for a long time and then its result.
LONG = """
import json, os, socket, time
channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["FORETIME_PROGRESS"])
def print(**message): channel.sendall((json.dumps(message) + "\\n").encode())
print(type="hello", pid=os.getpid())
step = 0
while not os.path.exists(os.environ["GO"]):
    step += 1
    print(type="progress", step=step, total_steps=step, loss=1)
    time.sleep(0.1)
print(type="result", step=step, metrics={"val_loss": 1})
"""
# Leaves an entry of some kind in the folder of its attempt, and ends well.
BEGIN = """
import os, pathlib, signal, socket, time
run = pathlib.Path(os.environ["FORETIME_TRIAL"]).parent
"""
BAD = {
    "fifo": ("os.mkfifo(run / 'metrics.jsonl')", "metrics.jsonl: found a FIFO, expected a regular file"),
    "zero": (
        "os.symlink('/dev/zero', run / 'metrics.jsonl')",
        "metrics.jsonl: found a symbolic link, expected a regular file",
    ),
    "folder": ("(run / 'metrics.jsonl').mkdir()", "metrics.jsonl: found a folder, expected a regular file"),
    "sparse": (
        "(run / 'metrics.jsonl').touch(); os.truncate(run / 'metrics.jsonl', 1 << 40)",
        "metrics.jsonl: found 1099511627776 bytes, expected at most",
    ),
    "outside": (
        f"(pathlib.Path(os.environ['GO']).parent / 'theirs').write_text('{SECRET}')\n"
        "os.symlink(pathlib.Path(os.environ['GO']).parent / 'theirs', run / 'metrics.jsonl')",
        "metrics.jsonl: found a symbolic link, expected a regular file",
    ),
    "manifest": (
        '(run / \'metrics.jsonl\').write_text(\'{"kind":"final","step":1,"m/val_loss":1}\\n\')\n'
        "(run / 'checkpoints/step-00000001').mkdir(parents=True)\n"
        "os.mkfifo(run / 'checkpoints/step-00000001/manifest.json')",
        "",
    ),
    "parameters": (
        "(run / 'parameters.json').unlink()\nos.mkfifo(run / 'parameters.json')\nos.mkfifo(run / 'trace.json')",
        "",
    ),
}


class AgentTest(QueueTest):
    def submit(self, name, program):
        (self.folder / "programs").mkdir(exist_ok=True)
        self.write(f"programs/{name}.py", program)
        self.write(f"{name}.yaml", SWEEP.replace("NAME", name))
        self.foretime("submit", f"{name}.yaml")

    def states(self):
        return {job["name"].split("/")[0].split(" ")[0].split("-")[0]: job for job in self.jobs()}

    def test_end_their_own_job_and_no_other(self):
        os.environ["GO"] = str(self.folder / "go")
        self.addCleanup(os.environ.pop, "GO")
        self.submit("long", LONG)
        agent = self.agent("--programs", "programs", "--cpus", "2", "--lease-seconds", "3", "--retry-seconds", "0.2")
        self.wait_for("the long job", lambda: self.states()["long"]["state"] == "active")
        for name, (program, _) in BAD.items():
            self.submit(name, BEGIN + program)
        over = ("failed", "dead", "succeeded")
        self.wait_for("all bad ones", lambda: all(self.states()[name]["state"] in over for name in BAD))
        found = self.states()
        for name, (_, message) in BAD.items():
            job = self.json("status", found[name]["id"])
            if message:
                self.assertEqual(found[name]["state"], "failed", job)
                self.assertIn(message, json.dumps(job))
            self.assertNotIn(SECRET, json.dumps(job))
        self.assertEqual(found["long"]["state"], "active")
        for job in found.values():  # readers of the folders do not hang either
            for run in (job["id"], f"runs/{job['id']}"):
                done = subprocess.run(
                    [FORETIME, "history", run], env=environment(), cwd=self.folder, capture_output=True, text=True
                )
                self.assertIn(done.returncode, (0, 3), done.stderr)
                self.assertNotIn(SECRET, done.stdout + done.stderr)
        (self.folder / "go").touch()
        self.wait_for("the long job's end", lambda: self.states()["long"]["state"] == "succeeded")
        job = self.json("status", found["long"]["id"])
        self.assertEqual(job["fence"], 1, "it never lost its lease")
        agent.send_signal(signal.SIGTERM)
        self.finish(agent)

    def test_a_job_that_stops_its_supervisor_gives_its_slot_back(self):
        self.submit("stopper", BEGIN + "os.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(3000)")
        self.agent(
            "--programs",
            "programs",
            "--cpus",
            "1",
            "--lease-seconds",
            "3",
            "--retry-seconds",
            "0.2",
            "--stall-seconds",
            "2",
            "--stop-grace",
            "1",
        )
        self.wait_for("its end", lambda: self.states()["stopper"]["state"] == "dead")
        self.submit(
            "next", BEGIN + '(run / \'metrics.jsonl\').write_text(\'{"kind":"final","step":1,"val/loss":1}\\n\')'
        )
        self.wait_for("the slot", lambda: self.states()["next"]["state"] not in ("waiting", "active", "delayed"))


@unittest.skipUnless(HAS_BOARD, NO_BOARD)
class ReportTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("private", SECRET)
        self.good = self.folder / "runs/good"
        self.good.mkdir(parents=True)
        (self.good / "metrics.jsonl").write_text('{"kind":"train","step":1,"loss":1.25}\n')
        self.bad = self.folder / "runs/bad"
        self.bad.mkdir()
        (self.bad / "metrics.jsonl").write_text('{"kind":"train","step":1,"loss":2.5}\n')

    def report(self):
        done = self.run_foretime("report", "runs", "-o", "report.html")
        page = (self.folder / "report.html").read_text()
        self.assertNotIn(SECRET, page)
        self.assertIn("1.25", page)
        (self.folder / "report.html").unlink()
        return page, done.stderr

    def test_publishes_no_file_behind_a_link(self):
        for name in ("config.yaml", "comparison.txt", "profile.txt", "parameters.json", "rankings.csv"):
            for target in (self.folder / "private", "../../private", "/dev/zero"):
                (self.bad / name).symlink_to(target)
                page, errors = self.report()
                self.assertIn("2.5", page)
                if name != "parameters.json":
                    self.assertIn(f"bad/{name}: found a symbolic link, expected a regular file", page)
                    self.assertIn(f"skipped in the report: bad/{name}: found a symbolic link", errors)
                (self.bad / name).unlink()

    def test_shows_what_is_next_to_a_damaged_file(self):
        for name, text in (("rankings.csv", "a,b\n1,2\n"), ("rankings.csv", "\0\0")):
            (self.bad / name).write_text(text)
            page, errors = self.report()
            self.assertIn(f"skipped in the report: bad/{name}: ", errors)
            self.assertIn("2.5", page)
            (self.bad / name).unlink()

    def test_waits_for_no_fifo(self):
        (self.bad / "metrics.jsonl").unlink()
        for name in ("metrics.jsonl", "config.yaml", "rankings.csv"):
            os.mkfifo(self.bad / name)
        page, errors = self.report()
        for name in ("metrics.jsonl", "config.yaml", "rankings.csv"):
            self.assertIn(f"bad/{name}: found a FIFO, expected a regular file", errors)
            self.assertIn(f"bad/{name}: found a FIFO", page)

    def test_the_same_for_an_experiment(self):
        folder = self.folder / "runs/experiment"
        folder.mkdir()
        (folder / "summary.md").write_text("# Findings\n")
        os.mkfifo(folder / "results.csv")
        done = self.run_foretime("report", "runs/experiment", "-o", "experiment.html")
        page = (self.folder / "experiment.html").read_text()
        self.assertIn("# Findings", page)
        self.assertNotIn(SECRET, page)
        self.assertIn("results.csv: found a FIFO", done.stderr)


class RunFolderTest(ProgramTest):
    def test_no_command_waits_for_a_fifo_in_a_run_directory(self):
        steps = dict(checkpoint__every_steps=4, trainer__log_every=1)
        self.train(trainer__steps=9, **steps)
        run = self.folder / "run"
        (run / "parameters.json").write_text("{}")
        (run / "trace.json").write_text("{}")
        commands = [
            self.training(trainer__steps=10, **steps),
            ["export", "run", "x.foretime", "--force"],
            ["evaluate", "run"],
            ["history", "run"],
            ["plan", self.training()[2], *self.settings()],
        ]
        if HAS_BOARD:
            commands.append(["report", "run", "-o", "report.html", "--force"])
        files = [
            path
            for path in sorted(run.rglob("*"))
            if path.is_file() and "step-00000009" in path.parts or "checkpoints" not in path.parts
        ]
        self.assertIn(run / "log.txt", files)
        self.assertIn(run / "config.yaml", files)
        kept = self.folder / "kept"
        shutil.copytree(run, kept)
        for file in files:
            for command in commands:
                shutil.rmtree(run)
                shutil.copytree(kept, run)
                file.unlink()
                os.mkfifo(file)
                with self.subTest(file=file.name, command=command[0]):
                    done = subprocess.run(
                        [FORETIME, *map(str, command)],
                        env=environment(),
                        cwd=self.folder,
                        capture_output=True,
                        text=True,
                        timeout=LIMIT,
                    )
                    self.assertIn(done.returncode, (0, 2, 3), done.stderr)
                    if done.returncode != 0:
                        self.assertIn(
                            "found a FIFO, expected a regular file" if file.name != "config.yaml" else "config.yaml",
                            done.stderr,
                        )

    def test_a_log_that_no_run_wrote_is_left_alone(self):
        (self.folder / "run").mkdir()
        self.write("run/log.txt", "My notes of the week\n")
        self.expect_message(self.train(code=2).stderr, "run/log.txt")
        self.assertEqual((self.folder / "run/log.txt").read_text(), "My notes of the week\n")
        self.assertEqual(sorted(path.name for path in (self.folder / "run").iterdir()), ["log.txt"])
        (self.folder / "run/log.txt").unlink()
        (self.folder / "run/log.txt").symlink_to("../notes.txt")
        self.write("notes.txt", "My notes of the week\n")
        self.expect_message(self.train(code=3).stderr, "run/log.txt")
        self.assertEqual((self.folder / "notes.txt").read_text(), "My notes of the week\n")
        # What a training has left that failed before it had a configuration is a log of Foretime.
        (self.folder / "run/log.txt").unlink()
        self.train(code=3, data__train="[none.npz]")
        self.assertEqual(sorted(path.name for path in (self.folder / "run").iterdir()), ["log.txt"])
        self.train()
        self.assertIn("none.npz", (self.folder / "run/log.txt").read_text().splitlines()[0])


if __name__ == "__main__":
    unittest.main()
