"""What may go wrong around agents, beside kills: each fault begins, lasts some seconds, and is over.

A fault that cannot be played here (no right to mount, say) says why in `unavailable`.
"""
import subprocess


class Fault:
    seconds = (1, 6)  # shortest, longest
    unavailable = ""

    def __init__(self, world, random):
        self.world, self.random = world, random

    def begin(self):
        raise NotImplementedError

    def end(self):
        raise NotImplementedError


class ReadOnlyRedis(Fault):
    name = "Redis is a read-only replica"

    def begin(self):
        self.world.redis("REPLICAOF", "127.0.0.1", "1")

    def end(self):
        self.world.redis("REPLICAOF", "NO", "ONE")


class FullRedis(Fault):
    name = "Redis is above maxmemory"

    def begin(self):
        self.world.redis("CONFIG", "SET", "maxmemory", "1")

    def end(self):
        self.world.redis("CONFIG", "SET", "maxmemory", "0")


class ChangedPassword(Fault):
    """All are thrown out; the agents' file has the new password some seconds later."""

    name = "the password of Redis changes"

    def begin(self):
        new = f"password{self.random.randrange(1 << 30)}"
        self.world.redis("CONFIG", "SET", "requirepass", new)
        self.world.redis.password = new
        self.world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def end(self):
        self.world.write_password()


class FullDisk(Fault):
    name = "the disk of the runs is full"

    def __init__(self, world, random):
        super().__init__(world, random)
        self.unavailable = world.runs_disk
        self.filler = world.folder / "runs/filler"

    def begin(self):
        with open(self.filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
            except OSError:
                pass

    def end(self):
        self.filler.unlink(missing_ok=True)


class BrokenNode(Fault):
    """One more agent, on a machine where the runs cannot be written."""

    name = "a node with a read-only run root"
    seconds = (5, 15)

    def __init__(self, world, random):
        super().__init__(world, random)
        self.unavailable = world.runs_disk
        self.agent = None

    def begin(self):
        script = 'mount --bind "$RUNS" "$RUNS" && mount -o remount,ro,bind "$RUNS" && exec "$@"'
        self.agent = self.world.start_agent(
            "--cpus",
            "4",
            "--lease-seconds",
            "2",
            "--retry-seconds",
            "0.1",
            log="broken.log",
            before=("unshare", "-m", "sh", "-c", script, "sh"),
            RUNS=str(self.world.folder / "runs"),
        )

    def end(self):
        self.world.kill_agent(self.agent)


class MovedClock(Fault):
    """Redis decides by its own clock: it jumps by minutes or by weeks, and back."""

    name = "the clock of Redis jumps"

    def __init__(self, world, random):
        super().__init__(world, random)
        self.unavailable = "" if world.clock else "FORETIME_CLOCK_SHIFT does not name libclock_shift.so"

    def begin(self):
        seconds = self.random.choice([-300, -30, 30, 300, 3600, 40 * 86400, -40 * 86400])
        self.world.clock.write_text(f"{seconds:+d}\n")

    def end(self):
        self.world.clock.write_text("+0\n")


ALL = (ReadOnlyRedis, FullRedis, ChangedPassword, FullDisk, BrokenNode, MovedClock)


def mount_small_disk(folder, megabytes):
    """Empty where it worked, else why not."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    return "" if done.returncode == 0 else f"cannot mount: {done.stderr.strip()}"
