"""What may be submitted, how it is listed, and what is refused."""
import json
import re
import subprocess
import sys

from program import LIMIT
from queue_case import SWEEP, QueueTest

LARGE_SWEEP = """
settings: base.yaml
method: random
run_cap: 20000
metric: {name: holdout/mae, goal: minimize}
parameters:
  optimizer.learning_rate: {distribution: log_uniform_values, min: 0.0001, max: 0.01}
"""


class SubmissionsTest(QueueTest):
    def test_submissions_are_printed_job_by_job(self):
        dry = self.json("submit", "sweep.yaml", "--dry-run")
        self.assertEqual(
            (sorted(dry), dry["name"], dry["warnings"]), (["jobs", "name", "sweep", "warnings"], "widths", [])
        )
        added = self.json("submit", "sweep.yaml")
        self.assertEqual([job.pop("added") for job in added["jobs"]], [True, True])
        self.assertEqual((added["jobs"], added["sweep"]), (dry["jobs"], dry["sweep"]))
        again = self.json("submit", "sweep.yaml", "seeds=2")
        self.assertEqual((again["added"], again["existing"], len(again["jobs"])), (4, 0, 4))
        table = self.foretime("submit", "sweep.yaml", "--dry-run").splitlines()
        self.assertEqual(table[0].split(), ["id", "kind", "name", "trial", "after", "model.hidden"])
        self.assertEqual([row.split()[0] for row in table[2:4]], [job["id"] for job in dry["jobs"]])
        self.assertEqual({len(row) for row in table[:4]}, {len(table[0])})

    def test_a_large_sweep_is_checked_and_printed_in_little_memory(self):
        self.write("large.yaml", LARGE_SWEEP + "  model.hidden: {values: [8, 12]}\n")
        for more in ([], ["--json"]):
            with open(self.folder / "said", "w") as out:
                peak = self.peak_kib("submit", "large.yaml", "--dry-run", *more, out=out)
            text = (self.folder / "said").read_text()
            self.assertEqual(len(json.loads(text)["jobs"]) if more else len(text.splitlines()) - 3, 20000)
            self.assertLess(peak, 40 * 1024, "KiB; all of its jobs together are larger")

    def test_status_as_json_of_a_large_queue_holds_few_jobs_in_memory(self):
        self.write("large.yaml", LARGE_SWEEP)
        sweep = re.search(r"[0-9a-f]{16}", self.foretime("submit", "large.yaml")).group()
        asked = {"queue": ["--limit", "1000000"], "sweep": ["--sweep", sweep, "--limit", "1000000"]}
        for head, more in asked.items():
            with open(self.folder / head, "w") as out:
                peak = self.peak_kib("status", "--json", *more, out=out)
            self.assertLess(peak, 48 * 1024, "KiB; all of its jobs together are larger")
        # Read by another process: the memory of this one would count as that of the children that other tests measure.
        read = """
import json, sys
text = open(sys.argv[1]).read()
document = json.loads(text)
assert text == json.dumps(document, indent=2, ensure_ascii=False) + "\\n", "one document"
print(*sorted(document), len({job["id"] for job in document["jobs"]}))
"""
        for head in asked:
            said = subprocess.run(
                [sys.executable, "-c", read, self.folder / head], check=True, capture_output=True, text=True
            ).stdout
            self.assertEqual(said, f"jobs {head} 20000\n")
        self.assertEqual(self.jobs("--state", "dead"), [])
        self.assertEqual(len(self.jobs("--limit", 257)), 257)

    def test_status_of_several_sweeps_shows_as_many_jobs_as_its_limit(self):
        first = self.json("submit", "sweep.yaml", "seeds=3")["sweep"]
        second = self.json("submit", "sweep.yaml")["sweep"]
        both = self.foretime("status", first, second, "--limit", 3)
        self.assertIn("and 5 more (--limit)", both)
        self.assertEqual(len(self.jobs(first, second, "--limit", 3)), 3)
        listed = self.jobs(first, second)
        self.assertEqual([job["sweep"] for job in listed], 6 * [first] + 2 * [second])
        self.foretime("cancel", listed[0]["id"])
        self.assertEqual([job["id"] for job in self.jobs(first, second, "--state", "cancelled")], [listed[0]["id"]])
        self.assertNotIn(
            listed[0]["id"],
            [job["id"] for job in self.jobs(first, second, "--limit", 7)],
            "what runs first comes first",
        )
        named = [job["id"] for job in listed[:3]]
        self.assertEqual([job["id"] for job in self.jobs(*named, "--limit", 1)], named, "jobs that are named are shown")

    def test_retrying_a_sweep_retries_trials_and_brings_back_what_follows_them(self):
        self.write_sweep(
            "then: [{evaluate: {files: [C11.npz]}}, export]\n", SWEEP.replace("[8, 12]", "[4, 6, 8, 10, 12, 14]")
        )
        added = self.json("submit", "sweep.yaml")
        trials = [job["id"] for job in added["jobs"] if job["kind"] == "train"]
        # Two of those that follow are cancelled by hand: they come back on their own, once their trial waits again.
        self.foretime("cancel", *[job["id"] for job in added["jobs"] if job["kind"] == "evaluate"][:2])
        self.foretime("cancel", *trials)
        self.assertEqual({job["state"] for job in self.jobs()}, {"cancelled"})
        self.assertIn("jobs wait again", self.foretime("retry", added["sweep"]))
        states = {job["id"]: job["state"] for job in self.jobs()}
        self.assertEqual({states[id] for id in trials}, {"waiting"})
        self.assertEqual({states[id] for id in states if id not in trials}, {"blocked"})

    def test_a_file_with_more_trials_adds_those(self):
        random = SWEEP.replace("method: grid", "method: random\nrun_cap: 2").replace(
            "values: [8, 12]", "min: 4, max: 64"
        )
        self.write_sweep(text=random)
        first = self.json("submit", "sweep.yaml")
        grown = self.json("submit", "sweep.yaml", "run_cap=5")
        self.assertEqual((grown["sweep"], grown["added"], grown["existing"]), (first["sweep"], 3, 2))
        self.assertEqual(grown["jobs"][:2], [{**job, "added": False} for job in first["jobs"]])
        self.json("submit", "sweep.yaml")  # and one with fewer takes none away
        self.assertIn("5 trials", self.foretime("status", first["sweep"]))

    def test_the_queue_says_how_many_jobs_it_keeps(self):
        self.foretime("submit", "sweep.yaml")
        self.foretime("queue", "--keep-jobs", 1000000)
        self.assertEqual(self.json("queue")["keep_jobs"], 1000000)
        self.assertIn("the newest 1000000 are kept", self.foretime("queue"))
        self.foretime("cancel", self.jobs()[0]["id"], self.jobs()[1]["id"])
        process = self.agent("--until-empty", "--keep-jobs", 2000000)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertIn("--keep-jobs 2000000: the queue already keeps 1000000", errors)

    def test_a_refused_submission_leaves_no_empty_sweep(self):
        self.assertIn("1000", self.foretime("submit", "sweep.yaml", "--max-attempts", 1001, code=2))
        self.assertFalse((self.folder / "runs").exists(), "no queue was asked")
        self.write_sweep("max_attempts: 1001\n")
        self.assertIn("1000", self.foretime("submit", "sweep.yaml", code=2))
        self.write_sweep()
        self.assertEqual(self.json("submit", "sweep.yaml", "--max-attempts", 1000)["added"], 2)

    def test_without_redis_every_command_says_what_to_do(self):
        commands = (
            ["submit", "sweep.yaml"],
            ["status"],
            ["cancel", "a"],
            ["pause"],
            ["resume"],
            ["retry", "a"],
            ["priority", "a", "1"],
            ["log", "a"],
            ["leaderboard"],
            ["queue"],
            ["agent", "--until-empty"],
            ["export", "a", "out"],
        )
        for number, command in enumerate(commands):
            address = f"unix://{self.folder}/nobody.sock" if number % 2 else "redis://127.0.0.1:1"
            message = self.foretime(*command, "--redis", address, code=4)
            self.assertIn("Redis", message)
            self.assertRegex(message, "redis-server|FORETIME_REDIS|--redis")
        for command in (["status"], ["queue"], ["leaderboard"]):
            message = self.foretime(*command, code=4)
            self.assertIn("--runs", message)
        self.assertFalse((self.folder / "runs/.redis").exists(), "only submit and agent start a Redis")
        self.assertIn("does not work", self.run_foretime("doctor", "--redis", "redis://127.0.0.1:1", code=4).stdout)

    def test_passwords_stay_out_of_command_lines_and_messages(self):
        secret = "s3cret-horse"
        message = self.foretime("status", "--redis", f"redis://me:{secret}@127.0.0.1:1", code=2)
        self.assertNotIn(secret, message)
        self.assertIn("FORETIME_REDIS", message)
        for command in (["status"], ["agent", "--until-empty"], ["submit", "sweep.yaml"]):
            message = self.foretime(*command, code=4, FORETIME_REDIS=f"redis://me:{secret}@127.0.0.1:1")
            self.assertNotIn(secret, message)
        doctor = self.run_foretime("doctor", code=4, FORETIME_REDIS=f"redis://me:{secret}@127.0.0.1:1")
        self.assertNotIn(secret, doctor.stdout + doctor.stderr)

    def test_bad_files_are_refused_before_anything_is_submitted(self):
        for more, expected in (
            ("  model.hiden: {values: [1]}\n", ["model.hiden", "model.hidden"]),
            ("  optimizer.learning_rate: {values: [0.1, -3]}\n", ["optimizer.learning_rate", "-3"]),
            ("  model.layers: {distribution: triangular, min: 1, max: 2}\n", ["model.layers", "triangular"]),
            ("  run.directory: {values: [/tmp/x]}\n", ["run.directory"]),
            ("methods: random\n", ["methods"]),
        ):
            self.write_sweep(more)
            message = self.foretime("submit", "sweep.yaml", code=2)
            for text in expected:
                self.assertIn(text, message)
        self.write_sweep()
        self.assertIn("trainer.stepz", self.foretime("submit", "base.yaml", "trainer.stepz=5", code=2))
        self.assertIn("nothing.yaml", self.foretime("submit", "nothing.yaml", code=2))
        self.assertIn("prefix", self.foretime("status", "--prefix", "a{b", code=2))
        for ranks in ("0", "8-2", "2-", "-2", "2-8-9", "x", "2-70000"):
            self.assertIn(
                f"--ranks: found {ranks}, expected a number from 1 to 65536 such as 4, or the least and the most such as 2-8",
                self.foretime("submit", "sweep.yaml", f"--ranks={ranks}", code=2),
            )
        for file in ("sweep.yaml", "base.yaml"):
            self.assertIn(
                "resources.gpus: found 2, expected 0 or 1: it is of each rank, and a rank trains on one GPU",
                self.foretime("submit", file, "--gpus", "2", code=2),
            )
            self.assertIn(
                "model.norm: found batch", self.foretime("submit", file, "--ranks", "2-8", "model.norm=batch", code=2)
            )
        self.assertFalse((self.folder / "runs").exists())

    def test_watching_and_submitting_need_no_libtorch(self):
        for command in (["submit", "sweep.yaml"], ["status"], ["leaderboard"], ["queue"]):
            self.assertLess(self.peak_kib(*command), 50 * 1024, f"KiB, {command}: LibTorch alone takes more than this")

    def test_unknown_and_wrong_ids(self):
        self.foretime("submit", "sweep.yaml", "--priority", 3, "--ranks", 2, "--gpus", 1, "--max-attempts", 5)
        for command in ("status", "log", "cancel", "retry", "pause"):
            self.assertIn("zzzz", self.foretime(command, "zzzz", code=2))
        job = self.jobs()[0]
        self.assertEqual([job[key] for key in ("priority", "ranks", "cpus", "gpus", "max_attempts")], [3, 2, 1, 1, 5])
        self.assertIn("cancel", self.foretime("pause", job["id"], code=2))
        self.assertIn("resting", self.foretime("status", "--state", "resting", code=2))
        self.assertIn(job["id"], self.foretime("export", job["id"], "out", code=2))
        self.assertIn("no jobs", self.foretime("status", "--prefix", "elsewhere"))
