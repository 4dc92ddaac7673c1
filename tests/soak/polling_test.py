"""The examples of docs/reference/jobs.md, as they stand there, against a real queue."""
import re
import subprocess
import sys
import unittest

from harness import SOURCE, World

GUIDE = (SOURCE / "docs" / "reference" / "jobs.md").read_text()


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S).group(1)


class Polling(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)

    def script(self, name, text):
        path = self.world.folder / name
        path.write_text(text)
        return str(path)

    def run_shell(self, identity):
        return subprocess.run(["sh", self.script("wait.sh", block("sh")), identity], capture_output=True, text=True, timeout=120,
                              env=self.world.environment(REDIS_ARGUMENTS=f"-s {self.world.socket}", INTERVAL="0.2"))

    def test_shell_and_python(self):
        world = self.world
        world.submit_sweep("mixed", range(78, 83))  # two that succeed, three that are refused
        world.start_agent("--cpus", "1", TRIAL_SLOW="2")
        by_seed = {int(world.job(i)["trial"]): i for i in world.ids()}
        good, bad = self.run_shell(by_seed[0]), self.run_shell(by_seed[4])
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        self.assertRegex(good.stdout, r"objective 79\.?0*$")
        self.assertEqual(bad.returncode, 1)
        self.assertIn("this seed is refused", bad.stderr)
        self.assertEqual(self.run_shell("0" * 16).returncode, 2)

        sweep = world.redis("ZRANGE", "{foretime}:sweeps", 0, 0)[0]
        try:
            import redis  # noqa: F401
        except ImportError:
            self.skipTest("python3-redis is not installed")
        done = subprocess.run([sys.executable, self.script("poll.py", block("python")), f"unix://{world.socket}", sweep], capture_output=True,
                              text=True, timeout=120, check=True)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 2, done.stdout)
        self.assertRegex(lines[-1], r"^succeeded 79\.0 .*'trainer.seed': '78'")

    def test_redis_cli(self):
        world = self.world
        world.submit_sweep("one", [5])
        sweep, identity = world.redis("ZRANGE", "{foretime}:sweeps", 0, 0)[0], world.ids()[0]
        commands = re.findall(r"^redis-cli ADDRESS .*", GUIDE, re.M)
        self.assertGreater(len(commands), 5)
        for command in commands:
            command = command.replace("ADDRESS", f"-s {world.socket}").replace(":ID", f":{identity}").replace("SWEEP", sweep)
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=True)
            self.assertNotIn("ERR", done.stdout, command)
            if "hgetall" in command:
                self.assertIn("waiting", done.stdout)
