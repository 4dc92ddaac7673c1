"""Storage that fails: real commands on a small, a read-only and a missing file system, mounted in a namespace of their own."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from program import FORETIME, LIMIT, SAMPLES, ProgramTest, environment, wait_until
from queue_case import BASE

# Root may mount; others may where the kernel lets them be root in a namespace.
NAMESPACE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])


def may_mount():
    command = [*NAMESPACE, "sh", "-c", "mount --make-rprivate / && mount -t tmpfs -o size=64k tmpfs /mnt"]
    return shutil.which("unshare") and subprocess.run(command, capture_output=True).returncode == 0


@unittest.skipUnless(may_mount(), "needs the right to mount a file system (root, or user namespaces)")
class StorageTest(ProgramTest):
    def mounted(self, options, folder, *command):
        """`command` where a tmpfs lies at `folder`; lines written to its standard input are run there by a shell."""
        script = (
            f'mount --make-rprivate / && mount -t tmpfs -o {options} tmpfs {folder} && {{ "$@" & agent=$!; '
            'while read -r line; do eval "$line"; echo said; done; wait $agent; }'
        )
        process = subprocess.Popen(
            [*NAMESPACE, "sh", "-c", script, "sh", *map(str, command)],
            cwd=self.folder,
            env=self.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        """With what it started: a shell that is ended leaves that alone."""
        process.stdin.close()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait(LIMIT)

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
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", ""],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.send_signal, signal.SIGKILL)
        self.assertTrue(wait_until((self.folder / "redis.sock").exists))

    def job(self):
        return json.loads(self.run_foretime("status", "--json", **self.queue()).stdout)["jobs"][0]

    def queue(self):
        return {"FORETIME_REDIS": self.variables()["FORETIME_REDIS"]}

    def submit(self, every, attempts):
        """A training of 40 steps that measures so often, on a Redis of its own, and an empty folder `small`."""
        self.start_redis()
        settings = (
            BASE.replace("SAMPLES", str(SAMPLES))
            .replace("steps: 6, eval_every: 3", f"steps: 40, {every}")
            .replace("hidden: 8", "hidden: 32")
            + "checkpoint: {every_steps: 10, keep_last: 9, keep_best: false}\n"
        )
        self.write("job.yaml", settings)
        self.run_foretime("submit", "job.yaml", "--max-attempts", attempts, **self.queue())
        (self.folder / "small").mkdir()

    # Promise storage/disk-full: a full, read-only or failing disk is exit code 74; a job is then retried from its
    # checkpoint, without counting an attempt, a bounded number of times
    def test_a_training_on_a_full_disk_is_tried_again_from_its_checkpoint(self):
        self.submit("eval_every: 5, log_every: 1", attempts=9)
        # A checkpoint or two fit, and not all of them.
        agent = self.mounted(
            "size=260k", "small", FORETIME, "agent", "--runs", "small", "--data-root", SAMPLES, "--retry-seconds", "0.5"
        )
        seen = []

        def failed():
            job = self.job()
            seen.append(job["state"])
            return job if job["failures"] or job["reason"].startswith("preempted") else None

        job = wait_until(failed, 0.1)
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
        done = wait_until(lambda: (job := self.job())["state"] == "succeeded" and job, 0.2)
        self.assertTrue(done, self.job())
        self.assertNotIn("failed", seen)
        self.assertIn("continues at step", self.there(agent, f"cat small/{job['id']}/attempt-*/output.log"))
        self.assertEqual(done["results"], 1)

    # Promise storage/disk-full
    def test_a_disk_with_room_for_a_small_file_only_costs_a_job_no_attempt(self):
        self.submit("eval_every: 40, log_every: 40", attempts=1)
        # The run's own files fit, and a look at the run root finds nothing wrong; no checkpoint fits.
        agent = self.mounted(
            "size=64k", "small", FORETIME, "agent", "--runs", "small", "--data-root", SAMPLES, "--retry-seconds", "5"
        )
        job = wait_until(lambda: (job := self.job())["failures"] + job["preemptions"] > 0 and job, 0.1)
        self.assertTrue(job, self.job())
        self.assertGreaterEqual(int(self.there(agent, "stat -f -c '%a' small")) * os.sysconf("SC_PAGE_SIZE"), 8192)
        log = self.there(agent, f"cat small/{job['id']}/attempt-1/output.log")
        self.assertIn("No space left on device", log)
        self.assertNotIn("given back", log)
        self.assertEqual((job["failures"], job["preemptions"]), (0, 1), job)
        self.assertIn("exit code 74", job["error"])
        self.there(agent, "mount -o remount,size=64m small")
        self.assertTrue(wait_until(lambda: self.job()["state"] == "succeeded", 0.2), self.job())
        self.assertEqual(self.job()["failures"], 0)

    def test_commands_on_a_full_or_read_only_disk_end_with_74(self):
        self.train()
        for options, out in (("size=4k", "No space left"), ("ro", "Read-only")):
            (self.folder / "disk").mkdir(exist_ok=True)
            for command in (
                ["export", "run", "disk/model.foretime"],
                ["export", "run", "disk/best"],
                ["data", "pack", "-o", "disk/all.foretime", str(SAMPLES / "C1.npz"), "--format", "programs"],
                ["rank", "run", str(SAMPLES / "C1.npz"), "--output", "disk/ranks.csv"],
                list(self.training(run__directory="disk/run")),
            ):
                script = f'mount --make-rprivate / && mount -t tmpfs -o {options} tmpfs disk && "$@"; code=$?; ls -A disk; exit $code'
                done = subprocess.run(
                    [*NAMESPACE, "sh", "-c", script, "sh", FORETIME, *map(str, command)],
                    cwd=self.folder,
                    env=environment(),
                    capture_output=True,
                    text=True,
                    timeout=LIMIT,
                )
                self.assertEqual(done.returncode, 74, f"{options} {command}\n{done.stdout}\n{done.stderr}")
                self.assertIn(out, done.stderr)
                self.assertNotIn("foretime-tmp", done.stdout, command)


@unittest.skipUnless(
    may_mount() and shutil.which("redis-server"), "needs redis-server and the right to mount a file system"
)
class EmbeddedQueueTest(ProgramTest):
    """The embedded Redis on storage that fails, and on storage whose locks other machines do not see."""

    def setUp(self):
        super().setUp()
        self.write("job.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        (self.folder / "runs").mkdir()

    def there(self, script, *before):
        """What a shell prints, with a tmpfs of 4 MiB at runs, and its exit code."""
        script = "mount --make-rprivate / && mount -t tmpfs -o size=4m tmpfs runs\n" + script
        done = subprocess.run(
            [*NAMESPACE, "bash", "-c", script.replace("FORETIME", str(FORETIME))],
            cwd=self.folder,
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        return done.returncode, done.stdout, done.stderr

    def variables(self):
        return {name: value for name, value in environment().items() if name != "FORETIME_REDIS"}

    SUBMIT = "FORETIME submit job.yaml || exit 90; until [ ! -e runs/.redis/redis.sock ]; do sleep 0.05; done\n"
    FILL = "dd if=/dev/zero of=runs/fill bs=1k 2>/dev/null;"

    # Promise redis/disk-full: on a full or read-only disk the queue can be read, and the message says how much room is
    # needed
    def test_a_queue_on_a_full_disk_is_read_and_says_how_much_room_it_needs(self):
        room = r"file system is full: 0.0 of 4.0 MiB are free, and Redis needs 1.0 MiB .*make room there, .*/runs, or start a Redis of your own"
        for command, shown in (("status", "1 waiting"), ("status --json", '"waiting"'), ("queue", "submitted       1")):
            code, out, error = self.there(self.SUBMIT + self.FILL + f"FORETIME {command}")
            self.assertEqual(code, 0, error)
            self.assertIn(shown, out)
            self.assertRegex(out + error, "what the queue wrote last, and nothing can be changed: .*" + room)
        for command in ("submit job.yaml --priority 3", "pause", "queue --keep-days 3"):
            code, out, error = self.there(self.SUBMIT + self.FILL + f"FORETIME {command}")
            self.assertEqual(code, 74, out + error)
            self.assertRegex(error, room)
        code, out, error = self.there(self.SUBMIT + self.FILL + "FORETIME doctor")
        self.assertEqual(code, 74, out + error)
        self.assertRegex(out, "jobs can be read, and nothing can be changed\n.*" + room)
        code, out, error = self.there(
            self.SUBMIT
            + self.FILL
            + "rm runs/fill; FORETIME doctor > /dev/null || exit 91; FORETIME submit job.yaml --name again && FORETIME status"
        )
        self.assertEqual(code, 0, out + error)
        self.assertIn("waiting", out)

    # Promise redis/disk-full
    def test_a_queue_on_a_read_only_disk_is_read(self):
        code, out, error = self.there(
            self.SUBMIT
            + "until mount -o remount,ro runs 2>/dev/null; do sleep 0.05; done; FORETIME status; FORETIME submit job.yaml --priority 3; echo submit=$?; FORETIME doctor; echo doctor=$?; FORETIME submit job.yaml --runs runs/new/runs; echo new=$?"
        )
        self.assertEqual(code, 0, error)
        self.assertIn("1 waiting", out)
        self.assertIn("submit=74", out)
        self.assertIn("doctor=74", out)
        self.assertIn("new=74", out)
        self.assertRegex(
            error, "mounted read-only; mount it for writing, name another folder of runs, or start a Redis of your own"
        )

    def test_a_disk_that_fills_under_a_running_server_is_named(self):
        self.write("more.yaml", BASE.replace("SAMPLES", str(SAMPLES)).replace("steps: 6", "steps: 9"))
        code, out, error = self.there(
            self.SUBMIT + "FORETIME pause; FORETIME agent >/dev/null 2>&1 & agent=$!\n"
            "until FORETIME status | grep -q '; 1 agent'; do sleep 0.1; done\n"
            + self.FILL
            + "FORETIME submit more.yaml; echo submit=$?; FORETIME status; kill $agent; wait $agent"
        )
        self.assertIn("submit=74", out, error)
        self.assertRegex(error, "file system is full: 0.0 of 4.0 MiB are free")
        self.assertIn("1 waiting", out)

    def machine(self, name, *command):
        """`command` on a machine of its own as far as it can see: host name, boot id, and file locks."""
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / "boot_id").write_text(f"boot-of-{name}\n")
        script = f"mount --make-rprivate / && hostname {name} && mount --bind {name}/boot_id /proc/sys/kernel/random/boot_id\n"
        for lock in ("users", "guardian", "server", "start"):
            (self.folder / name / f"{lock}.lock").touch(mode=0o600)
            script += f"[ ! -e runs/.redis ] || {{ touch runs/.redis/{lock}.lock; mount --bind {name}/{lock}.lock runs/.redis/{lock}.lock; }}\n"
        process = subprocess.Popen(
            [*NAMESPACE, "--uts", "bash", "-c", script + 'exec "$@"', "bash", FORETIME, *command],
            cwd=self.folder,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return process

    def servers(self):
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "comm").read_text().strip() in ("redis-server", "ft-redis") and (
                    folder / "cwd"
                ).resolve() == self.folder.resolve() / "runs/.redis":
                    found.append(int(folder.name))
            except OSError:
                pass
        return found

    # Promise redis/embedded-two-machines: two machines never run two embedded servers on one folder
    def test_a_second_machine_whose_locks_are_not_seen_starts_no_second_server(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to mount over /proc")
        first = self.machine("node-a", "submit", "job.yaml")
        first.communicate(timeout=LIMIT)
        self.assertEqual(first.returncode, 0)
        self.assertTrue(wait_until(lambda: not self.servers()))
        agent = self.machine("node-a", "agent", "--cpus", "1", "--data-root", str(self.folder))
        try:
            owner = self.folder / "runs/.redis/owner"
            self.assertTrue(
                wait_until(lambda: len(self.servers()) == 2 and owner.exists() and len(owner.read_text().split()) == 3)
            )
            guardian = owner.read_text().split()
            self.assertEqual(guardian[:2], ["node-a", "boot-of-node-a"])
            before = sorted(self.servers())
            second = self.machine("node-b", "submit", "job.yaml", "--priority", "3")
            out, error = second.communicate(timeout=LIMIT)
            self.assertEqual(second.returncode, 4, out + error)
            self.assertRegex(error, f"process {guardian[2]} on host node-a serves it, .*nolock")
            self.assertEqual(sorted(self.servers()), before)
        finally:
            agent.kill()
            agent.communicate()
            for pid in self.servers():  # as a loss of power ends them
                os.kill(pid, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not self.servers()))
        # The first machine is gone and has been silent for long enough.
        os.utime(owner, (0, 0))
        third = self.machine("node-b", "status")
        out, error = third.communicate(timeout=LIMIT)
        self.assertEqual(third.returncode, 0, error)
        self.assertIn("1 ", out)
        self.assertTrue(wait_until(lambda: not self.servers()))
        self.assertFalse(owner.exists(), "a guardian that ends leaves no owner")
