"""Sweeps of programs: which agents take them, what is final, and what submit and agents say."""
import json
import re
import signal
import subprocess
import unittest

from program import FORETIME, LIMIT, environment
from queue_case import QueueTest

# Talks to its agent by the lines of docs/reference/job-protocol.md.
SCRIPT = """
import json, os, socket, sys
told = json.load(open(os.environ["FORETIME_TRIAL"]))
agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["FORETIME_PROGRESS"])
def print(**message):
    agent.sendall((json.dumps(message) + "\\n").encode())
print(type="hello", pid=os.getpid())
mode = told["parameters"]["mode"]
metrics = {"nan": {"val_loss": float("nan")}, "inf": {"val_loss": float("-inf")}, "none": {"val_loss": None},
           "extra": {"val_loss": 0.25, "note": "hello", "flag": True}, "text": {"val_loss": "0.5"}, "bool": {"val_loss": True},
           "many": {"val_loss": 0.125, **{f"m{i}": i for i in range(600)}}, "float_step": {"val_loss": 0.5}}[mode]
print(type="result", step=3.0 if mode == "float_step" else 3, metrics=metrics)
agent.shutdown(socket.SHUT_WR)
agent.recv(1)  # until the agent has read all
"""
SWEEP = """
program: train.py
command: ["/usr/bin/python3", "${program}"]
method: grid
metric: {name: val_loss, goal: minimize}
parameters: {mode: {values: [nan, inf, none, extra, text, bool, many, float_step]}}
"""


class ProgramSweepsTest(QueueTest):
    def setUp(self):
        super().setUp()
        self.write("train.py", SCRIPT)
        self.write("sweep.yaml", SWEEP)

    def submit(self, *more):
        return re.search(r"[0-9a-f]{16}", self.foretime("submit", "sweep.yaml", *more)).group()

    def by_mode(self, sweep):
        return {job["parameters"]["mode"]: job for job in self.jobs(sweep)}

    def test_an_agent_without_programs_drains_no_queue_and_says_what_to_do(self):
        said = self.foretime("submit", "sweep.yaml")
        self.assertIn("run them with: foretime agent --programs .\n", said)
        sweep = re.search(r"[0-9a-f]{16}", said).group()
        plain = self.run_foretime("agent", "--until-empty")
        self.assertRegex(plain.stderr, "8 waiting jobs run user programs: start an agent with --programs FOLDER")
        self.assertEqual({(job["state"], job["attempt"]) for job in self.jobs(sweep)}, {("waiting", 0)})
        for shown in (self.foretime("status"), self.foretime("status", sweep), self.foretime("queue")):
            self.assertIn(
                "no agent runs programs, and 8 jobs that wait have one: foretime agent --programs FOLDER", shown
            )
        self.assertEqual(self.json("queue")["waiting_for_programs"], 8)
        self.foretime("agent", "--until-empty", "--programs", ".", code=7)
        self.assertNotIn("no agent runs programs", self.foretime("status"))

    def test_a_result_that_comes_after_the_lease_is_no_success(self):
        self.write(
            "train.py",
            "import pathlib, time\nwhile not pathlib.Path('OVER').exists(): time.sleep(0.05)\n".replace(
                "OVER", str(self.folder / "over")
            )
            + SCRIPT,
        )
        self.write("sweep.yaml", SWEEP.replace("nan, inf, none, extra, text, bool, many, float_step", "extra"))
        sweep = self.submit()
        options = ("--programs", ".", "--cpus", 1, "--lease-seconds", 1, "--until-empty")
        first = self.agent(*options, "--name", "first")
        self.wait_for("the job", lambda: self.jobs(sweep)[0]["state"] == "active")
        first.send_signal(signal.SIGSTOP)
        second = self.agent(*options, "--name", "second")
        self.wait_for("the other agent", lambda: self.jobs(sweep)[0]["agent"].startswith("second"))
        self.write("over", "")
        self.assertRegex(second.communicate(timeout=LIMIT)[1], "succeeded after .* s")
        first.send_signal(signal.SIGCONT)
        self.assertNotIn("succeeded after", first.communicate(timeout=LIMIT)[1])
        self.assertEqual(self.jobs(sweep)[0]["state"], "succeeded")

    def test_entries_that_are_no_numbers_cost_no_result(self):
        sweep = self.submit()
        self.foretime("agent", "--until-empty", "--programs", ".", "--retry-seconds", "0.1", code=7)
        jobs = self.by_mode(sweep)
        self.assertEqual(
            {mode: (job["state"], job["objective"]) for mode, job in jobs.items()},
            {
                "nan": ("succeeded", None),
                "inf": ("succeeded", None),
                "none": ("succeeded", None),
                "extra": ("succeeded", 0.25),
                "many": ("succeeded", 0.125),
                "float_step": ("succeeded", 0.5),
                "text": ("failed", None),
                "bool": ("failed", None),
            },
        )
        self.assertEqual({job["attempt"] for job in jobs.values()}, {1}, "no trial ran twice")
        self.assertIn('metrics.val_loss: found "0.5": left out, expected numbers', jobs["text"]["error"])
        log = self.foretime("log", jobs["extra"]["id"])
        self.assertRegex(log, 'metrics.flag: found true; metrics.note: found "hello": left out, expected numbers')

    def test_a_script_that_says_nothing_trains_once_and_is_told_what_to_add(self):
        self.write("train.py", "print('epoch 1 val_loss 0.5')\n")
        sweep = self.submit()
        self.foretime("agent", "--until-empty", "--programs", ".", code=7)
        for job in self.jobs(sweep):
            self.assertEqual((job["state"], job["attempt"]), ("failed", 1))
            self.assertRegex(
                job["error"],
                r"foretime.Trial\(\).*trial.finish\(step, \{\"val_loss\": value\}\).*metrics.jsonl.*foretime retry "
                + sweep,
            )
        again = self.foretime("submit", "sweep.yaml")
        self.assertRegex(
            again, f"0 jobs added, 8 were there already\n8 of them ended without success.*foretime retry {sweep}"
        )

    def test_a_script_of_wandb_reports_as_it_is(self):
        self.write(
            "train.py",
            "import wandb\nwandb.init(config={'mode': 'x'})\nfor epoch in range(2):\n"
            "    wandb.log({'loss': 1})\n    wandb.log({'val_loss': len(wandb.config.mode) + epoch})\n",
        )
        self.write("sweep.yaml", SWEEP.replace("nan, inf, none, extra, text, bool, many, float_step", "none, extra"))
        sweep = self.submit()
        self.foretime("agent", "--until-empty", "--programs", ".")
        jobs = self.by_mode(sweep)
        self.assertEqual(
            {mode: (job["state"], job["objective"]) for mode, job in jobs.items()},
            {"none": ("succeeded", 5), "extra": ("succeeded", 6)},
        )
        self.assertEqual(
            json.loads(self.foretime("history", jobs["none"]["id"], "--json"))["val_loss"]["values"], [4, 5]
        )

    def test_printed_metrics_are_read(self):
        self.write(
            "train.py", "for epoch in range(3):\n    print('epoch', epoch, 'val_loss', 1 / (epoch + 1), flush=True)\n"
        )
        self.write(
            "sweep.yaml",
            SWEEP.replace("nan, inf, none, extra, text, bool, many, float_step", "none")
            + "metric_from: {stdout: 'val_loss ([0-9.e+-]+)'}\n",
        )
        sweep = self.submit()
        self.foretime("agent", "--until-empty", "--programs", ".")
        (job,) = self.jobs(sweep)
        self.assertEqual((job["state"], job["objective"]), ("succeeded", 1 / 3))
        self.assertIn("epoch 2", self.foretime("log", job["id"]))

    def test_tables_for_spreadsheets_hold_no_formulas(self):
        self.write("train.py", "print('val_loss', 0.5)\n")
        self.write(
            "sweep.yaml",
            SWEEP.replace("nan, inf, none, extra, text, bool, many, float_step", "'=1+1', '@sum'")
            + "metric_from: {stdout: 'val_loss ([0-9.]+)'}\n",
        )
        sweep = self.submit()
        self.foretime("agent", "--until-empty", "--programs", ".")
        table = self.foretime("leaderboard", sweep, "--trials", "--csv")
        for value in ("=1+1", "@sum"):
            self.assertIn(value, table)
            self.assertNotIn("," + value, table)

    def test_the_printed_commands_work_as_they_are(self):
        (self.folder / "my project [1]").mkdir()
        for name in ("train.py", "sweep.yaml"):
            (self.folder / name).rename(self.folder / "my project [1]" / name)
        queue = ("--runs", "it's $runs", "--prefix", "other")
        said = self.foretime("submit", "my project [1]/sweep.yaml", *queue)
        agent, status = re.findall(r" with: foretime (.*)", said)
        for words, code in ((agent + " --until-empty", 7), (status.replace(" --watch", ""), 0)):
            done = subprocess.run(
                ["sh", "-c", f"{FORETIME} {words}"], cwd=self.folder, env=environment(), capture_output=True, text=True
            )
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("waiting", done.stdout)

    def test_the_program_may_be_beside_the_sweep_file_or_missing(self):
        (self.folder / "project").mkdir()
        for name in ("train.py", "sweep.yaml"):
            (self.folder / name).rename(self.folder / "project" / name)
        self.assertIn(
            "run them with: foretime agent --programs project\n", self.foretime("submit", "project/sweep.yaml")
        )
        (self.folder / "project/train.py").unlink()
        done = self.run_foretime("submit", "project/sweep.yaml", "seed=2", "mode2=3")
        self.assertIn("program: found no file train.py in this folder", done.stderr)

    def test_an_agent_says_where_nothing_was_ever_submitted(self):
        done = self.run_foretime("agent", "--until-empty", "--runs", "typo", code=4)
        self.assertIn("no job was ever submitted to the run folder 'typo'", done.stderr)
        self.assertFalse((self.folder / "typo").exists())

    def test_a_file_of_a_python_call_gets_its_program_on_the_command_line(self):
        self.write(
            "sweep.yaml",
            "method: bayes\nrun_cap: 4\nmetric: {name: final_accuracy, goal: maximize}\n"
            "parameters: {rate: {distribution: log_uniform_values, min: 1e-6, max: 1e-3}}\n",
        )
        said = self.foretime("submit", "sweep.yaml", "--dry-run", code=2)
        self.expect_message(said)
        dry = json.loads(self.foretime("submit", "sweep.yaml", "program=train.py", "--dry-run", "--json"))
        self.assertEqual(len(dry["jobs"]), 4)


if __name__ == "__main__":
    unittest.main()
