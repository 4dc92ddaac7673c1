"""Trainings and agents on three hosts and under Slurm, as the documentation says to start them."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from cluster import LIMIT, SOURCE, Cluster, missing, wait_for, wait_until
from on_cluster import FORETIME, QUICK, SETTINGS, OnCluster, training


class ClusterTest(OnCluster):
    def submit(self, name, ranks, seeds):
        parameters = {
            **{key: f"{{value: {value}}}" for key, value in QUICK.items()},
            "trainer.seed": f"{{values: {list(seeds)}}}",
        }
        lines = "".join(f"  {key}: {value}\n" for key, value in parameters.items())
        (self.work / f"{name}.yaml").write_text(
            f"settings: {SETTINGS}\nname: {name}\nmethod: grid\nmetric: {{name: holdout/mae}}\nresources: {{ranks: {ranks}, cpus: 1}}\nparameters:\n{lines}"
        )
        self.run_on("h2", [FORETIME, "submit", f"{name}.yaml"])

    def agents(self, name, srun, *options):
        """Runs two agents under srun until the queue is empty; the hosts that had jobs."""

        def known():
            return {agent["name"] for agent in json.loads(self.run_on("h2", [FORETIME, "queue", "--json"]))["agents"]}

        before = known()
        self.run_on("h2", [FORETIME, "pause"])  # until both agents are there, or one of them could do all the work
        with (self.work / f"{name}.log").open("w") as log:
            words = (
                f"{srun} {FORETIME} agent --cpus 2 --runs runs-{name} --data-root / --until-empty {' '.join(options)}"
            )
            process = self.cluster.start("h2", words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_for("both agents", lambda: len(known() - before) == 2, (self.work / f"{name}.log").read_text)
        self.run_on("h2", [FORETIME, "resume"])
        code = process.wait(LIMIT)
        said = (self.work / f"{name}.log").read_text()
        self.assertEqual((code, said.count(": succeeded after")), (0, 4), said)
        return set(re.findall(r"agent (h\d):\S+: finished [1-9]", said))

    # Promise test-cluster/hosts-apart: hosts have separate networks, names and `/tmp`
    def test_hosts_are_apart(self):
        for host in ("h1", "h2", "h3"):
            self.assertEqual(
                self.run_on(host, "hostname; ls /tmp | grep of-; touch /tmp/of-$(hostname)").split(), [host]
            )
        self.assertIn("10.99.0.3", self.run_on("h1", "getent hosts h3"))

    def test_the_network_is_what_it_is_told(self):
        send = "head -c 1000000 /dev/zero | redis-cli -h h1 -x set zeros"

        def seconds_to_send():
            started = time.monotonic()
            self.assertIn("OK", self.run_on("h3", send))
            return time.monotonic() - started

        self.cluster.link("h3", "tbf rate 8mbit burst 16kb latency 500ms")
        self.assertGreater(seconds_to_send(), 0.8)
        self.cluster.link("h3")
        wait_for("a transfer that the slow link does not allow", lambda: seconds_to_send() < 0.8)
        self.cluster.cut("h3")
        self.run_on("h3", "timeout 2 redis-cli -h h1 ping", code=124)
        self.cluster.mend("h3")
        self.assertIn("PONG", self.run_on("h3", "redis-cli -h h1 ping"))

    # Promise training/ranks-on-hosts: `srun --mpi=pmix -N2 -n2 foretime train`, `mpirun --host h1,h2,h3`: the bytes of
    # as many ranks on one host
    def test_ranks_on_other_hosts_train_what_ranks_of_one_host_train(self):
        self.run_on("h1", ["mpirun", "-n", "2", *training("one-host")])
        self.run_on("h2", ["mpirun", "-n", "2", "--host", "h2,h3", *training("two-hosts")])
        self.run_on("h3", ["srun", "--mpi=pmix", "-N2", "-n2", *training("slurm")])
        self.assertEqual(self.weights("two-hosts"), self.weights("one-host"))
        self.assertEqual(self.weights("slurm"), self.weights("one-host"))
        self.run_on("h1", ["mpirun", "-n", "3", *training("three-ranks")])
        self.run_on("h1", ["mpirun", "-n", "3", "--host", "h1,h2,h3", *training("three-hosts")])
        self.assertEqual(self.weights("three-hosts"), self.weights("three-ranks"))
        for run, same in (("two-hosts", "one-host"), ("slurm", "one-host"), ("three-hosts", "three-ranks")):
            self.assertEqual(self.losses(run), self.losses(same))

    # Promise training/ranks-slow-links: four ranks over links of 1 Gbit/s, however they lie on hosts and gradients
    # travel: the bytes of one host
    def test_ranks_over_a_slow_link_train_what_ranks_of_one_host_train_however_gradients_travel(self):
        for host in ("h1", "h2", "h3"):
            self.cluster.link(host, "tbf rate 1gbit burst 64kb latency 20ms")
            self.addCleanup(self.cluster.link, host)
        # Gradients of 0.9 MB; four ranks as two hosts of two (which sum within hosts first), three hosts, and in turns.
        short = {
            "model__hidden": 192,
            "trainer__steps": 4,
            "trainer__eval_every": 4,
            "data__max_eval_candidates": 10,
            "data__test": "[]",
            "trainer__threads": 1,
        }
        layouts = {
            "one": "h1:4",
            "two": "h2:2,h3:2",
            "uneven": "h1:1,h2:2,h3:1",
            "flat": "h2:2,h3:2",
            "turns": "h2:2,h3:2",
        }
        for dtype in ("float32", "bfloat16"):
            found = {}
            for name, hosts in layouts.items():
                turns = ["--map-by", "node"] if name == "turns" else []
                self.run_on(
                    "h1",
                    [
                        "mpirun",
                        "-n",
                        "4",
                        "--host",
                        hosts,
                        *turns,
                        *training(
                            f"{dtype}-{name}",
                            comm__gradient_dtype=dtype,
                            comm__hierarchical="false" if name == "flat" else "true",
                            **short,
                        ),
                    ],
                )
                found[name] = self.weights(f"{dtype}-{name}")
            self.assertEqual(set(found.values()), {found["one"]}, found)

    # Promise cluster-agents/srun: `srun -N2 --ntasks-per-node=1 foretime agent`, also with `--launcher srun`
    def test_an_agent_for_each_node_of_a_step(self):
        self.submit("direct", ranks=2, seeds=range(1, 5))
        self.assertEqual(self.agents("direct", "srun -N2 -w h1,h2 --ntasks-per-node=1"), {"h1", "h2"})

    # Promise cluster-agents/srun
    def test_agents_that_start_their_jobs_by_srun(self):
        self.submit("steps", ranks=2, seeds=range(5, 9))
        self.assertEqual(
            self.agents("steps", "srun -N2 -w h1,h2 --ntasks-per-node=1", "--launcher", "srun"), {"h1", "h2"}
        )

    # Promise training/host-cut-off: a host that is cut off is named in time
    def test_a_host_that_is_cut_off_is_named_in_time(self):
        log = self.work / "cut.log"
        with log.open("w") as out:
            process = self.cluster.start(
                "h1",
                [
                    "mpirun",
                    "-n",
                    "2",
                    "--host",
                    "h1,h2",
                    *training("cut", trainer__steps=100000, comm__timeout_seconds=20),
                ],
                stdout=out,
                stderr=out,
            )
        metrics = self.work / "cut/metrics.jsonl"
        wait_for("the first steps", metrics.exists, log.read_text)
        self.cluster.cut("h2")
        self.addCleanup(self.cluster.mend, "h2")
        wait_until(lambda: "late: rank 1" in log.read_text())
        self.assertIn("did not finish within 20.0 s; late: rank 1 on h2 (no answer)", log.read_text())
        # Mpirun itself waits for another 100 s.
        self.cluster.beside("pkill -9 -f [r]un.directory=cut; pkill -9 orted; true")
        process.wait()


class LeftoversTest(unittest.TestCase):
    def test_nothing_is_left_behind(self):
        if why := missing(slurm=True):
            self.skipTest(why)
        with tempfile.TemporaryDirectory(prefix="foretime-cluster-", dir="/var/tmp") as folder:
            cluster = Cluster(folder, hosts=2, slurm=True).up()
            sleeps = cluster.start("h2", ["sleep", "12345"])
            cluster.down()
            sleeps.wait(LIMIT)

            self.require_nothing_of(folder, "12345")

    # Promise test-cluster/nothing-left: `tools/cluster.sh up`, `run`, `down`: no process, mount or file is left
    def test_the_script_leaves_nothing_behind(self):
        if why := missing(slurm=True, redis=True):
            self.skipTest(why)
        with tempfile.TemporaryDirectory(prefix="foretime-cluster-", dir="/var/tmp") as parent:
            folder = f"{parent}/by-hand"

            def script(*words, code=0):
                done = subprocess.run(
                    [SOURCE / "tools/cluster.sh", *words],
                    env={**os.environ, "FORETIME_CLUSTER": folder},
                    capture_output=True,
                    text=True,
                    timeout=LIMIT,
                )
                self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
                return done.stdout + done.stderr

            self.assertIn("no cluster is up", script("run", "h1", "true", code=1))
            self.assertIn("h2 10.99.0.2", script("up", "--hosts", "2"))
            try:
                self.assertIn("is up in", script("up", code=1))
                self.assertEqual(sorted(script("run", "h1", "srun", "-N2", "hostname").split()), ["h1", "h2"])
                self.assertIn("PONG", script("run", "h2", "redis-cli", "-h", "h1", "ping"))
                script("run", "h2", "sh", "-c", "setsid sleep 123456 > /dev/null 2>&1 & exit 3", code=3)
            finally:
                script("down")
            script("down")
            self.assertFalse(pathlib.Path(folder).exists())
            self.require_nothing_of(folder, "123456")

    def require_nothing_of(self, *marks):
        """No process has one of these in its command line, and nothing is mounted there."""

        def left():
            for process in pathlib.Path("/proc").iterdir():
                try:
                    line = (process / "cmdline").read_text()
                    if any(mark in line for mark in marks):
                        yield line
                except OSError:
                    pass
            yield from (
                line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if marks[0] in line
            )

        wait_until(lambda: not list(left()))
        self.assertEqual(list(left()), [])


if __name__ == "__main__":
    unittest.main()
