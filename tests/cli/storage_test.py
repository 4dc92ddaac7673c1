"""Storage that fails: real commands on a small, a read-only and a missing file system, mounted in a namespace of their own."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from program import FORETIME, SAMPLES, ProgramTest, environment, wait_until
from jobs_test import BASE

# Root may mount; others may where the kernel lets them be root in a namespace.
NAMESPACE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])


def may_mount():
    command = [*NAMESPACE, "sh", "-c", "mount --make-rprivate / && mount -t tmpfs -o size=64k tmpfs /mnt"]
    return shutil.which("unshare") and subprocess.run(command, capture_output=True).returncode == 0


@unittest.skipUnless(may_mount(), "needs the right to mount a file system (root, or user namespaces)")
class StorageTest(ProgramTest):
    def mounted(self, options, folder, *command):
        """`command` where a tmpfs lies at `folder`; lines written to its standard input are run there by a shell."""
        script = (f"mount --make-rprivate / && mount -t tmpfs -o {options} tmpfs {folder} && {{ \"$@\" & agent=$!; "
                  "while read -r line; do eval \"$line\"; echo said; done; wait $agent; }")
        process = subprocess.Popen([*NAMESPACE, "sh", "-c", script, "sh", *map(str, command)], cwd=self.folder, env=self.variables(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        process.stdin.close()
        if process.poll() is None:
            process.terminate()
        process.stdout.close()
        process.wait(60)

    @staticmethod
    def there(process, line):
        """Runs a line where the file system is mounted, and returns what it printed."""
        process.stdin.write(line + "\n")
        process.stdin.flush()
        text = ""
        while (answer := process.stdout.readline()) not in ("said\n", ""):
            text += answer
        return text

    def variables(self):
        return {**environment(), "FORETIME_REDIS": f"unix://{self.folder}/redis.sock"}

    def start_redis(self):
        if shutil.which("redis-server") is None:
            self.skipTest("needs redis-server")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", ""], cwd=self.folder,
                                  stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.send_signal, signal.SIGKILL)
        self.assertTrue(wait_until((self.folder / "redis.sock").exists))

    def job(self):
        return json.loads(self.run_foretime("status", "--json", **self.queue()).stdout)["jobs"][0]

    def queue(self):
        return {"FORETIME_REDIS": self.variables()["FORETIME_REDIS"]}

    def test_a_training_on_a_full_disk_is_tried_again_from_its_checkpoint(self):
        self.start_redis()
        settings = BASE.replace("SAMPLES", str(SAMPLES)).replace("steps: 6, eval_every: 3", "steps: 40, eval_every: 5, log_every: 1").replace(
            "hidden: 8", "hidden: 32") + "checkpoint: {every_steps: 10, keep_last: 9, keep_best: false}\n"
        self.write("job.yaml", settings)
        self.run_foretime("submit", "job.yaml", "--max-attempts", 9, **self.queue())
        (self.folder / "small").mkdir()
        # A checkpoint or two fit, and not all of them.
        agent = self.mounted("size=260k", "small", FORETIME, "agent", "--runs", "small", "--data-root", SAMPLES, "--retry-seconds", "0.5")
        seen = []

        def failed():
            job = self.job()
            seen.append(job["state"])
            return job if job["failures"] or job["reason"].startswith("preempted") else None

        job = wait_until(failed, 120, 0.1)
        self.assertTrue(job, seen)
        self.assertRegex(job["checkpoint"], "attempt-1/checkpoints/step-000000[123]0$")
        attempt = f"small/{job['id']}/attempt-1"
        self.assertIn("No space left on device", self.there(agent, f"cat {attempt}/output.log"))
        kept = self.there(agent, f"ls {attempt}/checkpoints")
        self.assertIn(pathlib.Path(job["checkpoint"]).name, kept)
        self.assertNotIn("foretime-tmp", kept)
        for line in self.there(agent, f"cat small/{job['id']}/attempt-*/metrics.jsonl").splitlines():
            json.loads(line)
        # Somebody makes room.
        self.there(agent, "mount -o remount,size=64m small")
        done = wait_until(lambda: (job := self.job())["state"] == "succeeded" and job, 240, 0.2)
        self.assertTrue(done, self.job())
        self.assertNotIn("failed", seen)
        self.assertIn("continues at step", self.there(agent, f"cat small/{job['id']}/attempt-*/output.log"))
        self.assertEqual(done["results"], 1)

    def test_commands_on_a_full_or_read_only_disk_end_with_74(self):
        self.train()
        for options, out in (("size=4k", "No space left"), ("ro", "Read-only")):
            (self.folder / "disk").mkdir(exist_ok=True)
            for command in (["export", "run", "disk/model.foretime"], ["export", "run", "disk/best"], ["data", "pack", "disk/all.foretime", str(SAMPLES / "C1.npz"), "--format", "programs"],
                            ["rank", "run", str(SAMPLES / "C1.npz"), "--output", "disk/ranks.csv"],
                            list(self.training(run__directory="disk/run"))):
                script = f"mount --make-rprivate / && mount -t tmpfs -o {options} tmpfs disk && \"$@\"; code=$?; ls -A disk; exit $code"
                done = subprocess.run([*NAMESPACE, "sh", "-c", script, "sh", FORETIME, *map(str, command)], cwd=self.folder, env=environment(),
                                      capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 74, f"{options} {command}\n{done.stdout}\n{done.stderr}")
                self.assertIn(out, done.stderr)
                self.assertNotIn("foretime-tmp", done.stdout, command)
