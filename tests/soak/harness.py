"""What the tests of this folder share: a Redis server of their own, agents, and a look at what they left behind."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import faults

SOURCE = pathlib.Path(os.environ.get("FORETIME_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.append(str(SOURCE / "tests/support"))

from waiting import LIMIT, wait_for  # noqa: E402

FORETIME = os.environ.get("FORETIME", str(SOURCE / "build/release/cli/foretime"))
CLOCK_SHIFT = pathlib.Path(
    os.environ.get("FORETIME_CLOCK_SHIFT", SOURCE / "build/release/tests/soak/libclock_shift.so")
)
TRIAL = str(pathlib.Path(__file__).with_name("trial.py"))
PREFIX = "{foretime}"


class RedisClient:
    """redis-cli, so that no answer passes through code under test."""

    def __init__(self, path):
        self.path, self.password = str(path), ""

    def __call__(self, *words):
        """Waits for a server that is being restarted."""
        command = ["redis-cli", "-e", "--json", "-s", self.path, *map(str, words)]

        def answer():
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
                env={**os.environ, **({"REDISCLI_AUTH": self.password} if self.password else {})},
            )
            return done if done.returncode == 0 else None

        return json.loads(wait_for(f"an answer to {words}", answer).stdout)


class World:
    """One scratch folder with a Redis server, run root and agents; every process carries a mark in its environment."""

    def __init__(self, fsync="always", bad_days=False, disk=64):
        """`bad_days`: with what faults.py needs, as far as this machine has it; the disk of the runs then has `disk` MB."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretime-soak-"))
        self.mark = f"FORETIME_SOAK_MARK={self.folder.name}"
        self.socket, self.fsync = self.folder / "redis.sock", fsync
        self.server, self.agents, self.started = None, [], 0
        self.redis = RedisClient(self.socket)
        self.seen_events, self.next_event = [], "-"
        (self.folder / "witness").mkdir()
        (self.folder / "data").mkdir()
        (self.folder / "data/there").touch()
        self.runs_disk = faults.mount_small_disk(self.folder / "runs", disk) if bad_days else "not asked for"
        self.password_file = self.folder / "password" if bad_days else None
        self.clock = self.folder / "clock" if bad_days and CLOCK_SHIFT.exists() else None
        if self.clock:
            self.clock.write_text("+0\n")
        self.start_redis()
        if bad_days:
            self.redis("CONFIG", "SET", "requirepass", "first")
            self.redis.password = "first"
            self.write_password()

    def write_password(self):
        file = self.password_file.with_suffix(".new")
        file.write_text(self.redis.password + "\n")
        file.rename(self.password_file)

    def environment(self, **extra):
        name, value = self.mark.split("=")
        return {
            **os.environ,
            name: value,
            "FORETIME_REDIS": f"unix://{self.socket}",
            "OMP_WAIT_POLICY": "passive",
            "TRIAL_WITNESS": str(self.folder / "witness"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **({"FORETIME_REDIS_PASSWORD_FILE": str(self.password_file)} if self.password_file else {}),
            **extra,
        }

    def start_redis(self):
        self.server = subprocess.Popen(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                str(self.socket),
                "--dir",
                str(self.folder),
                "--appendonly",
                "yes",
                "--appendfsync",
                self.fsync,
                "--save",
                "",
                "--loglevel",
                "warning",
                *(["--requirepass", self.redis.password] if self.redis.password else []),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environment(
                **({"LD_PRELOAD": str(CLOCK_SHIFT), "CLOCK_SHIFT": str(self.clock)} if self.clock else {})
            ),
        )
        self.redis("PING")

    def kill_redis(self):
        self.server.kill()
        self.server.wait()

    def start_agent(self, *options, log=None, before=(), **environment):
        self.started += 1
        log = open(self.folder / (log or "agents.log"), "ab")
        agent = subprocess.Popen(
            [
                *before,
                FORETIME,
                "agent",
                "--runs",
                str(self.folder / "runs"),
                "--data-root",
                str(self.folder / "data"),
                "--program",
                TRIAL,
                *options,
            ],
            cwd=self.folder,
            env=self.environment(**environment),
            stdout=log,
            stderr=log,
        )
        log.close()
        self.agents.append(agent)
        return agent

    def kill_agent(self, agent):
        agent.kill()
        agent.wait()
        self.agents.remove(agent)

    def agents_known(self):
        """Whether all agents have said to Redis that they are there."""
        known = {
            self.redis("HGET", f"{PREFIX}:agent:{name}", "pid")
            for name in self.redis("ZRANGE", f"{PREFIX}:agents", 0, -1)
        }
        return {str(agent.pid) for agent in self.agents} <= known

    def foretime(self, *arguments, code=0):
        done = subprocess.run(
            [FORETIME, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        if done.returncode != code:
            raise AssertionError(
                f"{arguments} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            )
        return done.stdout

    def submit_sweep(self, name, seeds, **more):
        """A grid over trainer.seed, by which the trial program chooses what it does."""
        (self.folder / "base.yaml").write_text(
            "data: {format: programs, train: [x.npz], holdout: 0.2}\n"
            "loss: {type: huber}\ntrainer: {steps: 20, eval_every: 5, metric: holdout/mae, metric_goal: minimize}\n"
        )
        sweep = {
            "name": name,
            "settings": "base.yaml",
            "method": "grid",
            "metric": {"name": "holdout/mae", "goal": "minimize"},
            "parameters": {"trainer.seed": {"values": list(seeds)}},
            **more,
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(sweep))  # JSON is YAML
        self.foretime("submit", file)

    def hash(self, name):
        return self.redis("HGETALL", f"{PREFIX}:{name}")

    def job(self, identity):
        """Its fields, also those that stand in others (docs/reference/jobs.md, Fields of a job)."""
        fields = self.hash(f"job:{identity}")
        packed = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in json.loads(fields.get("spec", "{}")).items()
        }
        packed.update(
            zip(("fence", "token", "attempt", "claimed_ms", "term_ms", "agent"), fields.get("lease", "").split(" ", 5))
        )
        return {**packed, **{name: value for name, value in fields.items() if value}}

    def ids(self):
        return self.redis("ZRANGE", f"{PREFIX}:ids", 0, -1)

    def states(self):
        names = ("blocked", "waiting", "delayed", "held", "active", "succeeded", "failed", "cancelled", "dead")
        # In one script: a job that moves between two questions would be seen nowhere.
        count = "local n = {} for i, key in ipairs(KEYS) do n[i] = redis.call('ZCARD', key) end return n"
        return dict(zip(names, self.redis("EVAL", count, len(names), *(f"{PREFIX}:state:{name}" for name in names))))

    def collect_events(self):
        """Appends what is new in the stream, which is trimmed, to `seen_events`: (event, job, fence)."""
        for identity, flat in self.redis("XRANGE", f"{PREFIX}:events", self.next_event, "+"):
            fields = dict(zip(flat[::2], flat[1::2]))
            for job in [fields["job"], *fields.get("more", "").split()]:
                self.seen_events.append((fields["event"], job, int(fields.get("fence") or 0)))
            if "next" in fields:
                self.seen_events.append(("claim", fields["next"], int(fields["raised"])))
            self.next_event = f"({identity}"

    def wait_for(self, what, condition):
        log = self.folder / "agents.log"
        return wait_for(
            what,
            condition,
            lambda: f"{self.states()}\n{log.read_text(errors='replace')[-3000:] if log.exists() else ''}",
        )

    def marked_processes(self):
        """Living processes of this world, but for the Redis server: pid -> command line."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.server.pid:
                continue
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                pass
        return found

    def close(self):
        for agent in self.agents:
            agent.kill()
            agent.wait()
        for pid in self.marked_processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if self.server.poll() is None:
            self.kill_redis()
        if not self.runs_disk:
            subprocess.run(["umount", "-l", str(self.folder / "runs")], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
