"""An agent that is cut off from Redis for longer than its lease, and one whose clock is an hour ahead."""
import os
import signal
import subprocess
import time
import unittest

from harness import World


class Faults(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)

    def only_job(self):
        return self.world.job(self.world.ids()[0])

    def test_the_old_holders_result_is_refused_and_the_new_ones_stands(self):
        world = self.world
        wire_end = world.folder / "wire.sock"

        def relay():
            return subprocess.Popen(
                ["socat", f"UNIX-LISTEN:{wire_end},unlink-early,fork", f"UNIX-CONNECT:{world.socket}"],
                env=world.environment(),
                start_new_session=True,
            )

        def cut(process):
            os.killpg(process.pid, signal.SIGKILL)  # socat forks for each connection
            process.wait()

        wire = relay()
        self.addCleanup(lambda: wire.poll() is None and cut(wire))
        world.submit_sweep("slow", [1000000])
        options = ("--cpus", "1", "--lease-seconds", "10")
        first = world.start_agent(
            *options, "--name", "first", log="first.log", FORETIME_REDIS=f"unix://{wire_end}", TRIAL_SLOW="60"
        )
        world.wait_for(
            "the first agent's job makes progress", lambda: self.only_job().get("step", "0") not in ("", "0")
        )
        cut(wire)
        world.start_agent(*options, "--name", "second", TRIAL_QUICK="0.2")
        world.wait_for("the second agent finishes the job", lambda: self.only_job()["state"] == "succeeded")
        stands = self.only_job()
        self.assertEqual((stands["agent"], stands["fence"], stands["results"]), ("second", "2", "1"))
        witness = world.folder / "witness" / "1000000"
        self.assertEqual(len(witness.read_text().splitlines()), 2)
        # The first one has finished its copy behind the cut, or is still at it; now it can tell.
        wire = relay()
        world.wait_for("the first agent's write is refused", lambda: int(world.hash("totals").get("refused", 0)) > 0)
        world.wait_for(
            "the first agent's job is gone",
            lambda: not [c for c in world.marked_processes().values() if "config.yaml" in c],
        )
        for field in ("state", "agent", "fence", "results", "objective", "checkpoint", "metrics", "finished_ms"):
            self.assertEqual(self.only_job().get(field), stands.get(field), field)
        self.assertIsNone(first.poll(), (world.folder / "first.log").read_text())
        world.submit_sweep("next", [500])  # the agent that was cut off is of use again
        world.wait_for("the next job", lambda: world.states()["succeeded"] == 2)

    def test_a_cut_in_which_nobody_else_takes_the_job_costs_nothing(self):
        world = self.world
        world.submit_sweep("slow", [1000000])
        world.start_agent("--cpus", "1", "--lease-seconds", "8", TRIAL_SLOW="20")
        world.wait_for("progress", lambda: self.only_job().get("step", "0") not in ("", "0"))
        world.kill_redis()
        time.sleep(16)  # twice the lease
        world.start_redis()
        world.wait_for("the job succeeds", lambda: self.only_job()["state"] == "succeeded")
        self.assertEqual(self.only_job()["fence"], "1")
        self.assertEqual(len((world.folder / "witness" / "1000000").read_text().splitlines()), 1)

    def test_a_clock_that_is_set_forward_changes_nothing(self):
        world = self.world
        clock = world.folder / "clock"
        clock.write_text("+0\n")
        world.submit_sweep("slow", [1000000])
        library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
        if not os.path.exists(library):
            self.skipTest(f"{library} is not installed (package faketime)")
        world.start_agent(
            "--cpus",
            "1",
            "--lease-seconds",
            "10",
            "--stall-seconds",
            "600",
            LD_PRELOAD=library,
            FAKETIME_TIMESTAMP_FILE=str(clock),
            FAKETIME_NO_CACHE="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1",
            TRIAL_SLOW="8",
        )
        world.wait_for("progress", lambda: self.only_job().get("step", "0") not in ("", "0"))
        clock.write_text("+3600\n")
        # With the right time: it would reap what looks expired.
        world.start_agent("--cpus", "1", "--lease-seconds", "10")
        world.wait_for("the job succeeds", lambda: self.only_job()["state"] == "succeeded")
        job = self.only_job()
        self.assertEqual((job["fence"], job.get("attempt", "1"), job["results"]), ("1", "1", "1"))
        self.assertEqual(int(world.hash("totals").get("lost_leases", 0)), 0)
        now = int(world.redis("TIME")[0]) * 1000
        for field in ("submitted_ms", "claimed_ms", "finished_ms"):
            self.assertLess(abs(int(job[field]) - now), 120000, field)
