"""The examples of docs/reference/jobs.md, as they stand there, against a real queue."""
import re
import subprocess
import unittest

from harness import LIMIT, SOURCE, World

GUIDE = (SOURCE / "docs" / "reference" / "jobs.md").read_text()


def block(language, name):
    """The one block of code in which `name` stands."""
    [found] = [text for text in re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S) if name in text]
    return found


class Polling(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)

    def script(self, name, text):
        path = self.world.folder / name
        path.write_text(text)
        return str(path)

    def run_shell(self, identity):
        return subprocess.run(
            ["sh", self.script("wait.sh", block("sh", "wait_for_job.sh")), identity],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=self.world.environment(ADDRESS=f"-s {self.world.socket}", INTERVAL="0.2"),
        )

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

    def test_redis_cli(self):
        world = self.world
        world.submit_sweep("one", [5])
        sweep, identity = world.redis("ZRANGE", "{foretime}:sweeps", 0, 0)[0], world.ids()[0]
        commands = re.findall(r"^redis-cli \$ADDRESS .*", GUIDE, re.M)
        self.assertGreater(len(commands), 5)
        for command in commands:
            done = subprocess.run(
                ["sh", "-c", command],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=True,
                env=world.environment(ADDRESS=f"-s {world.socket}", JOB=identity, SWEEP=sweep),
            )
            self.assertNotIn("ERR", done.stdout, command)
            if "hgetall" in command:
                self.assertIn("waiting", done.stdout)

    def test_history(self):
        world = self.world
        world.submit_sweep("one", [5])
        world.start_agent("--cpus", "1")
        [identity] = world.ids()
        world.wait_for("the end of the job", lambda: world.job(identity)["state"] == "succeeded")
        series = dict(line.split(" ", 1) for line in world.job(identity)["history"].splitlines())
        steps, text = series["holdout/mae"].split()
        self.assertEqual(steps, "5+5x3")
        example = {}
        exec(block("python", "def values"), example)
        for step, value in zip((5, 10, 15, 20), example["values"](text, 4), strict=True):
            self.assertAlmostEqual(value / (5 + 20 / step), 1, delta=1 / 512)
