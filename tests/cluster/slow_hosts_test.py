"""A host that is slow, or whose network is: nothing but time changes, and the reports name it."""
import json
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import time
import unittest

from cluster import Cluster, missing
from on_cluster import training

HOSTS = ["h1", "h2", "h3"]


class SlowHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(why)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretime-slow-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.cluster = Cluster(cls.folder, hosts=3)
        cls.addClassCleanup(cls.cluster.down)
        cls.cluster.up()
        cls.work = cls.folder / "work"
        cls.reference = cls.train("one-host", [])

    @classmethod
    def train(cls, name, options):
        """Of three ranks; the lines of their reports."""
        words = [
            "mpirun",
            "-n",
            "3",
            *options,
            *training(
                name,
                trainer__steps=120,
                trainer__eval_every=120,
                trainer__log_every=20,
                # Steps take long enough that a host can be stopped in the midst of them.
                model__hidden=64,
                sampler__candidates_per_group=24,
            ),
        ]
        done = cls.cluster.run("h1", words)
        assert done.returncode == 0, done.stdout + done.stderr
        return [
            line
            for line in map(json.loads, (cls.work / name / "metrics.jsonl").read_text().splitlines())
            if line["kind"] == "train"
        ]

    def same_curve(self, lines):
        self.assertEqual(
            [(line["step"], line["loss"]) for line in lines], [(line["step"], line["loss"]) for line in self.reference]
        )

    def log(self, name):
        return (self.work / name / "log.txt").read_text()

    # Promise training/host-slow: a slow host (stopped half of the time): the losses are the same bits, and the reports
    # name it
    def test_a_host_that_is_stopped_again_and_again_changes_nothing_and_is_named(self):
        over = threading.Event()

        def ranks():
            for process in pathlib.Path("/proc").iterdir():
                try:
                    if (
                        process.name.isdigit()
                        and b"run.directory=stopped" in (process / "cmdline").read_bytes()
                        and b"mpirun" not in (process / "cmdline").read_bytes()
                        and os.readlink(process / "ns/net") == self.network_of("h2")
                    ):
                        yield int(process.name)
                except OSError:
                    pass

        def stop_and_go():
            while not over.is_set():
                found = list(ranks())
                for sign, pause in ((signal.SIGSTOP, 0.3), (signal.SIGCONT, 0.3)):
                    for process in found:
                        try:
                            os.kill(process, sign)
                        except ProcessLookupError:
                            pass
                    time.sleep(pause)

        thread = threading.Thread(target=stop_and_go)
        thread.start()
        try:
            lines = self.train("stopped", ["--host", "h1,h2,h3"])
        finally:
            over.set()
            thread.join()
        self.same_curve(lines)
        named = [line["waited_for"] for line in lines]
        self.assertGreater(named.count("h2"), len(named) / 2, lines)
        self.assertRegex(
            self.log("stopped"),
            r"h2 is slow: it came last in \d+ % of the steps, and all others waited [\d.]+ ms of [\d.]+ ms a step for it",
        )

    def network_of(self, host):
        holder = (self.folder / f"{host}.pid").read_text().strip()
        return self.cluster.run(None, ["readlink", f"/proc/{holder}/ns/net"]).stdout.strip()

    # Promise training/host-slow-network: a slow network of a host (`tc … tbf rate 20mbit`): likewise
    def test_a_host_with_a_slow_network_changes_nothing_and_is_named(self):
        # So slow that communication takes a good part of a step on a busy machine, too.
        self.cluster.link("h3", "tbf rate 4mbit burst 16kb latency 500ms")
        self.addCleanup(self.cluster.link, "h3")
        lines = self.train("link", ["--host", "h1,h2,h3"])
        self.same_curve(lines)
        self.assertIn("h3", [line.get("slow_link") for line in lines], lines)
        self.assertRegex(
            self.log("link"),
            r"the network of h3 is slow: 256 KiB to or from it take [\d.]+ ms, and [\d.]+ ms between the others",
        )


if __name__ == "__main__":
    unittest.main()
