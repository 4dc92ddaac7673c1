"""Credentials of Redis and of artifact stores do not reach a job, whether by its environment or by /proc."""
import json
import os
import pwd
import shutil
import subprocess
import unittest

from program import FORETIME, ProgramTest, environment, wait_until

SECRETS = {
    "FORETIME_REDIS_PASSWORD": "hunter2-of-redis",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-store",
    "AWS_ACCESS_KEY_ID": "key-of-store",
}
PROGRAM = """
import json, os, pathlib
found = [name for name, value in os.environ.items() if "-of-" in value]
processes, readable = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()], []
for process in processes:
    try:
        text = pathlib.Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        continue
    readable.append(process)
    if b"-of-redis" in text or b"-of-store" in text:
        found.append(pathlib.Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\\0", b" ").decode())
print("seen", json.dumps({"found": found, "own": os.getpid() in readable, "parent": os.getppid() in readable}))
"""
SWEEP = {
    "name": "s",
    "program": "look.py",
    "method": "grid",
    "metric": {"name": "val_loss", "goal": "minimize"},
    "parameters": {"a": {"values": [1]}},
}


class SecretsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.user = []
        if os.geteuid() == 0:  # root may read everything
            nobody = pwd.getpwnam("nobody")
            self.user = ["setpriv", "--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups"]
            if subprocess.run([*self.user, FORETIME, "--version"], capture_output=True).returncode != 0:
                self.skipTest(f"{FORETIME}: the user nobody may not run it")
            self.folder.chmod(0o777)
        self.write("look.py", PROGRAM)
        self.write("sweep.yaml", SWEEP)

    def background(self, *command, **variables):
        process = subprocess.Popen(
            [*self.user, *map(str, command)],
            env={**environment(), **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        return process

    def seen_by_a_job(self, *agent, **variables):
        done = subprocess.run(
            [*self.user, FORETIME, "submit", "sweep.yaml"],
            env={**environment(), **variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.background(FORETIME, "agent", "--programs", ".", *agent, **variables)
        seen = wait_until(
            lambda: [
                line
                for log in (self.folder / "runs").glob("*/attempt-*/output.log")
                for line in log.read_text().splitlines()
                if line.startswith("seen {") and line.endswith("}")
            ]
        )
        self.assertTrue(seen)
        return json.loads(seen[0].removeprefix("seen "))

    # Promise agents/credentials: an agent's credentials do not reach its jobs
    @unittest.skipUnless(shutil.which("setpriv"), "setpriv is not installed")
    def test_a_job_finds_no_credentials(self):
        socket = self.folder / "redis.sock"
        self.background(
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            socket,
            "--requirepass",
            SECRETS["FORETIME_REDIS_PASSWORD"],
            "--save",
            "",
        )
        self.assertTrue(wait_until(socket.exists))
        seen = self.seen_by_a_job(
            "--artifacts",
            "s3://bucket/x",
            FORETIME_REDIS=f"unix://{socket}",
            AWS_ENDPOINT_URL="http://127.0.0.1:1",
            **SECRETS,
        )
        self.assertEqual(seen, {"found": [], "own": True, "parent": False})

    # Promise agents/credentials
    @unittest.skipUnless(shutil.which("setpriv"), "setpriv is not installed")
    def test_nor_in_the_redis_that_foretime_starts(self):
        seen = self.seen_by_a_job("--artifacts", "s3://bucket/x", AWS_ENDPOINT_URL="http://127.0.0.1:1", **SECRETS)
        self.assertEqual(seen["found"], [])


if __name__ == "__main__":
    unittest.main()
