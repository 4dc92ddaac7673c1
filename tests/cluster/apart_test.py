"""Jobs that leave the host of their agent, and hosts that share a Redis and no folder."""
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from cluster import LIMIT, SOURCE, Cluster, missing, redis_words, wait_for
from on_cluster import FORETIME, QUICK, SETTINGS


class ApartTest(unittest.TestCase):
    HOSTS = 3

    def setUp(self):
        if why := missing(redis=True):
            self.skipTest(why)
        # Not below /tmp, where each host has its own.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretime-cluster-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.agents = []
        self.addCleanup(lambda: [process.wait(LIMIT) for process in self.agents])  # after the cluster has ended
        self.cluster = Cluster(self.folder, hosts=self.HOSTS, redis=True)
        self.addCleanup(self.cluster.down)
        self.cluster.up()
        self.work = self.folder / "work"
        self.work.mkdir()

    def run_on(self, host, *words, code=0, **options):
        done = self.cluster.run(host, [FORETIME, *words], **options)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout

    def status(self, *words):
        return json.loads(self.run_on("h1", "status", *words, "--json"))

    def agent(self, host, *options, **where):
        """Whose process has its number in a file of the host's own."""
        log = (self.folder / f"agent-{host}-{len(self.agents)}.log").open("w")
        self.addCleanup(log.close)
        words = " ".join(f"'{word}'" for word in ("agent", "--name", host, "--data-root", "/", *options))
        process = self.cluster.start(
            host, f"echo $$ > /tmp/agent.pid; exec '{FORETIME}' {words}", stdout=log, stderr=log, **where
        )
        self.agents.append(process)
        return process

    def kill_agent(self, host):
        self.assertEqual(self.cluster.run(host, "kill -9 $(cat /tmp/agent.pid)").returncode, 0)

    def logs(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("agent-*.log")))[-6000:]


class FarRankTest(ApartTest):
    LAUNCHER = (
        "mpirun -n {ranks} --host h3:2 --bind-to none -x FORETIME_PROGRESS -x FORETIME_PROGRESS_TCP -x FORETIME_PROGRESS_TOKEN "
        f"-x LD_PRELOAD={os.environ.get('FORETIME_SLOW_STEPS', '')} "  # leaves the cores to other tests
        "--mca odls_base_sigkill_timeout 5 {command}"
    )

    def submit(self, name, **more):
        values = {**QUICK, **more}
        lines = "".join(f"  {key}: {{value: {value}}}\n" for key, value in values.items())
        (self.work / f"{name}.yaml").write_text(
            f"settings: {SETTINGS}\nname: {name}\nmethod: grid\nmetric: {{name: holdout/mae}}\n"
            f"resources: {{ranks: 2, cpus: 1}}\nparameters:\n{lines}"
        )
        return json.loads(self.run_on("h1", "submit", f"{name}.yaml", "--json"))["jobs"][0]["id"]

    # Promise hosts/messages
    # Promise cluster-agents/ranks-elsewhere: all ranks of a job on another host than its agent: it reports, and is
    # stopped
    def test_a_job_whose_ranks_are_all_on_another_host_reports_and_is_stopped(self):
        long = self.submit("long", **{"trainer.steps": 1000000, "checkpoint.every_steps": 20})
        self.agent("h2", "--runs", "runs", "--launcher", self.LAUNCHER, "--until-empty", "--cpus", "2")
        job = wait_for("progress", lambda: (job := self.status(long))["step"] > 40 and job["checkpoint"] and job)
        self.assertGreater(job["total_steps"], job["step"])
        self.assertIn("holdout/mae", job["metrics"])
        # The token of the job is in its environment, and nowhere that others read.
        tokens, lines = set(), []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                lines.append((process / "cmdline").read_text())
                for entry in (process / "environ").read_bytes().split(b"\0"):
                    if (
                        entry.startswith(b"FORETIME_PROGRESS_TOKEN=")
                        and str(self.folder).encode() in (process / "cmdline").read_bytes()
                    ):
                        tokens.add(entry.split(b"=")[1].decode())
            except (OSError, UnicodeDecodeError):
                pass
        self.assertEqual(len(tokens), 1)
        token = tokens.pop()
        self.assertEqual(len(token), 32)
        self.assertFalse([line for line in lines if token in line])
        self.assertNotIn(token, self.run_on("h1", "log", long) + self.logs())
        # A request to stop reaches rank 0 there: it ends after a checkpoint, long before SIGTERM.
        short = self.submit("short")
        self.run_on("h1", "cancel", long)
        wait_for("the end", lambda: self.status(long)["state"] == "cancelled")
        output = (self.work / "runs" / long / "attempt-1/output.log").read_text()
        self.assertNotIn("SIGTERM", output)
        self.assertNotIn("progress is not sent", output)
        wait_for("a result", lambda: self.status(short)["state"] == "succeeded")
        job = self.status(short)
        self.assertEqual((job["step"], job["results"]), (20, 1))
        self.assertEqual(self.agents[0].wait(LIMIT), 0, self.logs())


class NoSharedFolderTest(ApartTest):
    """The fourth host runs nothing."""

    HOSTS = 4

    def has_left_work(self, host, id):
        """Kills the agent of a host; whether the job must then continue on another host.

        A job that early stopping has asked to end has nothing to continue: its next attempt ends before it starts.
        """
        self.kill_agent(host)
        job = self.status(id)
        return (job["state"], job["agent"]) == ("active", host) and "early stopping" not in job["reason"]

    def files_of_tmp(self, host):
        """What was written to the /tmp of a host, where a checkout that lies in /tmp is seen too."""
        found = self.cluster.run(host, "ls -A /tmp").stdout.split()
        return [name for name in found if not SOURCE.is_relative_to(f"/tmp/{name}")]

    def continued_on(self, host):
        """The jobs that have continued on a host from a stored checkpoint."""
        command = "cd /tmp/runs && grep -l 'continues from the stored checkpoint' */*/output.log"
        return {path.split("/")[0] for path in self.cluster.run(host, command).stdout.split()}

    def restart_redis(self):
        self.cluster.run("h1", "kill -9 $(redis-cli info server | sed -n 's/process_id:\\([0-9]*\\).*/\\1/p')")
        data = self.folder / "redis"
        redis = self.cluster.start("h1", redis_words(data, "--logfile", self.folder / "redis-again.log"))
        self.agents.append(redis)
        self.redis = redis

    # Promise cluster-agents/no-shared-folder: a sweep over three hosts without a shared folder; agents and Redis
    # killed, files lost: all trials end, and a fourth host exports the winner
    def test_a_sweep_over_hosts_that_lose_their_agents_and_its_winner_on_a_host_that_ran_nothing(self):
        self.run_on(
            "h1",
            "submit",
            SOURCE / "configs/sweeps/quickstart.yaml",
            f"data.root={SOURCE}/samples/resnet18_conv2d",
            "trainer.steps=600",  # so that each lasts until its agent is killed
        )
        # What agents and jobs write is in /tmp, which each host has for itself; they read the checkout alone.
        options = ["--artifacts", "redis", "--runs", "/tmp/runs", "--cpus", 1, "--lease-seconds", 3, "--until-empty"]
        for host in ("h1", "h2", "h3"):
            self.agent(host, *options, cwd="/tmp")

        def stored_on(host):
            for job in self.status()["jobs"]:
                if job["state"] == "active" and job["agent"] == host and "last" in self.status(job["id"])["artifacts"]:
                    return job["id"]

        moved, continued = set(), set()
        for host in ("h2", "h1", "h3"):
            # Where the job had nothing left to do when its agent was killed, another job is looked for.
            while not self.has_left_work(host, id := wait_for(f"a checkpoint of {host}", lambda: stored_on(host))):
                self.agent(host, *options, cwd="/tmp")
            moved.add(id)
            if host == "h2":
                self.restart_redis()
            continued |= self.continued_on(host)
            self.cluster.run(host, "rm -rf /tmp/runs")  # what was there went with the host
            self.agent(host, *options, cwd="/tmp")
        wait_for(
            "all ends",
            lambda: (jobs := self.status()["jobs"])
            and all(job["state"] in ("succeeded", "failed", "dead") for job in jobs),
        )
        jobs = self.status()["jobs"]
        self.assertEqual([(job["state"], job["results"]) for job in jobs], [("succeeded", 1)] * 8, self.logs())
        continued = continued.union(*(self.continued_on(host) for host in ("h1", "h2", "h3")))
        for id in moved:
            self.assertGreater(self.status(id)["fence"], 1)
        self.assertLessEqual(moved, continued, self.logs())
        for agent in self.agents:  # those that were killed, Redis, and those that came back
            if agent.poll() is None and agent is not self.redis:
                agent.wait(LIMIT)
        self.assertFalse([path for path in self.work.iterdir()], "hosts share nothing that somebody has written")
        winner = min(jobs, key=lambda job: job["objective"])["id"]
        self.assertEqual(self.files_of_tmp("h4"), [])
        self.assertIn(
            "step ", self.run_on("h4", "export", winner, "/tmp/best.foretime", "--runs", "/tmp/runs", cwd="/tmp")
        )
        self.assertEqual(self.files_of_tmp("h4"), ["best.foretime"])
        ranked = self.run_on(
            "h4", "rank", "/tmp/best.foretime", SOURCE / "samples/resnet18_conv2d/C3.npz", "--top", "10", cwd="/tmp"
        )
        self.assertIn("C3", ranked)


if __name__ == "__main__":
    unittest.main()
