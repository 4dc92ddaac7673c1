"""The queue inside a run root: names of run roots, lost data, folders that cannot be searched."""
import os
import pathlib
import shutil
import subprocess

from program import FORETIME, LIMIT, environment, wait_until
from queue_case import QueueTest

NAMES = [
    "glob[x]*?",
    "*",
    "{a,b}$HOME",
    "with space",
    "a'b\"c",
    "new\nline",
    "%s%n",
    "back\\slash",
    "-dash",
    "ünï⚙",
    "x" * 240,
    "comma,colon:",
]


def servers(folder):
    """Processes of a redis-server that works in `folder`."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("comm").read_text() == "redis-server\n" and os.readlink(process / "cwd") == str(folder):
                found.append(process)
        except OSError:
            pass
    return found


def open_ports(process):
    """Inodes of the process's sockets that are TCP sockets."""
    links = [os.readlink(entry) for entry in process.joinpath("fd").iterdir()]
    tables = [
        line.split()[9]
        for name in ("tcp", "tcp6")
        if (table := pathlib.Path("/proc/net", name)).exists()
        for line in table.read_text().splitlines()[1:]
    ]
    return [link for link in links if link.startswith("socket:[") and link[8:-1] in tables]


class QueueSafetyTest(QueueTest):
    def runs(self, name="runs"):
        return self.folder.resolve() / name

    def wait_for_end(self, runs):
        """Until the server has ended, and its guardian, which removes `owner` last."""
        folder = runs / ".redis"
        ended = wait_until(lambda: not servers(folder) and not (folder / "owner").exists())
        self.assertTrue(ended, "the server does not end")

    def test_run_roots_with_odd_names_work_and_open_no_port(self):
        for name in NAMES:
            with self.subTest(name=name):
                runs = self.runs("roots") / name / "runs"
                self.foretime("submit", "sweep.yaml", "--runs", runs)
                [server] = servers(runs / ".redis")
                self.assertEqual(open_ports(server), [])
                self.assertEqual(len(self.jobs("--runs", runs)), 2)
                self.wait_for_end(runs)
                self.assertEqual(len(self.jobs("--runs", runs)), 2)
        self.foretime("submit", "sweep.yaml", "--runs=-relative[x]")
        self.assertEqual(len(self.jobs("--runs=-relative[x]")), 2)
        self.expect_message(self.foretime("submit", "sweep.yaml", "--runs", "x" * 300, code=4))

    def test_lost_data_of_the_queue_are_refused_until_the_loss_is_accepted(self):
        runs = self.runs()
        data = runs / ".redis" / "appendonlydir"
        kept = self.runs("kept")

        def newest():
            return max(data.glob("*.incr.aof"))

        def flip():
            newest().write_bytes(newest().read_bytes().replace(b"model.hidden", b"model.hiddem"))

        losses = {
            "manifest": (lambda: next(data.glob("*.manifest")).unlink(), 2),
            "folder": (lambda: shutil.rmtree(data), 0),
            "emptied": (lambda: newest().write_bytes(b""), 0),
            "half": (lambda: os.truncate(newest(), newest().stat().st_size // 2), None),
            "flipped": (flip, 2),
        }
        self.foretime("submit", "sweep.yaml")
        self.wait_for_end(runs)
        runs.rename(kept)
        for name, (lose, left) in losses.items():
            with self.subTest(name=name):
                shutil.rmtree(runs, ignore_errors=True)
                shutil.copytree(kept, runs, ignore=shutil.ignore_patterns("redis.sock"))
                lose()
                for command in (["status"], ["submit", "sweep.yaml"], ["queue"], ["agent", "--until-empty"]):
                    self.assertIn("--accept-loss", self.foretime(*command, code=3))
                self.foretime("queue", "--accept-loss")
                jobs = self.jobs()
                if left is not None:
                    self.assertEqual(len(jobs), left)
                self.wait_for_end(runs)
                self.assertEqual(len(self.jobs()), len(jobs))
                self.wait_for_end(runs)

    def test_a_loss_is_accepted_of_the_own_redis_only(self):
        text = self.foretime("queue", "--accept-loss", "--redis", "unix:///nowhere", code=2)
        self.expect_message(text, "--accept-loss")

    def test_a_run_root_that_cannot_be_searched_is_named(self):
        runs = self.runs()
        runs.mkdir()
        runs.chmod(0)
        os.chmod(self.folder, 0o755)
        as_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for command in ("status", "queue"):
            done = subprocess.run(
                [*as_other, FORETIME, command, "--runs", runs],
                cwd=self.folder,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("cannot be searched for a Redis: Permission denied", done.stderr)
        runs.chmod(0o700)


if __name__ == "__main__":
    import unittest

    unittest.main()
