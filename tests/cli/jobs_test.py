"""Sweeps and jobs as their users run them: submit, agent, status, leaderboard and the rest, over the Redis that foretime starts."""
import json
import os
import pathlib
import re
import shutil
import signal

from program import SAMPLES
from queue_case import QueueTest


class JobsTest(QueueTest):
    def test_a_sweep_from_submit_to_leaderboard(self):
        self.write_sweep("seeds: 2\nthen: [{evaluate: {files: [C11.npz]}}, export]\n")
        dry = self.foretime("submit", "sweep.yaml", "--dry-run")
        self.assertIn("model.hidden", dry)
        self.assertFalse((self.folder / "runs").exists(), "a dry run starts no Redis")
        added = self.json("submit", "sweep.yaml")
        # 2 widths, 2 seeds, each trained, evaluated, exported.
        self.assertEqual((added["added"], added["existing"]), (12, 0))
        sweep = added["sweep"]
        again = self.foretime("submit", "sweep.yaml")
        self.assertIn("0 jobs added, 12 were there already", again)
        self.assertEqual({job["state"] for job in self.jobs("--state", "waiting")}, {"waiting"})
        watch = self.background("status", sweep[:6], "--watch=0.3")
        self.finish(self.agent("--cpus", 2, "--until-empty"))
        self.assertIn("12 succeeded", self.finish(watch))

        listed = self.json("status", sweep)
        self.assertEqual(listed["sweep"]["jobs"]["succeeded"], 12)
        trials = {job["id"]: job for job in listed["jobs"] if job["kind"] == "train"}
        for job in listed["jobs"]:
            self.assertEqual((job["state"], job["results"], job["attempt"]), ("succeeded", 1, 1), job)
        best = min(trials.values(), key=lambda job: job["objective"])
        table = self.foretime("leaderboard")
        self.assertIn("±", table)
        self.assertIn("of 2", table)
        rows = self.rows_of(
            self.foretime("leaderboard", sweep[:5], "--trials", "--csv", "--with", "holdout/kendall_tau")
        )
        self.assertEqual([row["rank"] for row in rows], ["1", "2", "3", "4"])
        self.assertEqual(rows[0]["job"], best["id"])
        values = [float(row["holdout/mae"]) for row in rows]
        self.assertEqual(values, sorted(values))
        self.assertEqual({row["model.hidden"] for row in rows}, {"8", "12"})
        for row in rows:
            self.assertEqual(float(row["holdout/kendall_tau"]), trials[row["job"]]["metrics"]["holdout/kendall_tau"])
        joined = self.json("leaderboard")["rows"]
        self.assertEqual([(row["count"], len(row["trials"])) for row in joined], [(2, 2), (2, 2)])
        for row in joined:
            values = [trial["value"] for trial in row["trials"]]
            self.assertAlmostEqual(row["value"], sum(values) / 2, places=12)
            self.assertAlmostEqual(row["deviation"], abs(values[0] - values[1]) / 2**0.5, places=12)
        # The best first, whichever direction a metric has.
        for metric, larger_is_better in (
            ("holdout/pairwise_accuracy", True),
            ("holdout/kendall_tau", True),
            ("holdout/mae", False),
        ):
            values = [
                float(row[metric])
                for row in self.rows_of(self.foretime("leaderboard", sweep, "--trials", "--csv", "--metric", metric))
            ]
            self.assertEqual(len(values), 4)
            self.assertEqual(values, sorted(values, reverse=larger_is_better), metric)
            self.assertLess(min(values), max(values), metric)
        self.expect_message(self.foretime("leaderboard", "--metric", "test/nothing", code=2))

        self.assertIn("run directory", self.foretime("log", best["id"][:8]), "the end of it")
        self.assertLessEqual(len(self.foretime("log", best["id"], "--lines", 2).splitlines()), 2)
        full = self.foretime("status", best["id"])
        for text in ("model.hidden=", "holdout/mae", best["checkpoint"], "learning_rate"):
            self.assertIn(text, full)

        # What followed each trial: its evaluation on other files, and its export, which can be evaluated in turn.
        exports = [job for job in listed["jobs"] if job["kind"] == "export" and job["trial"] == best["trial"]]
        evaluations = [job for job in listed["jobs"] if job["kind"] == "evaluate" and job["trial"] == best["trial"]]
        exported = self.folder / "runs" / exports[0]["checkpoint"]
        metrics = json.loads(self.foretime("evaluate", exported, SAMPLES / "C11.npz", "--json"))["metrics"]
        for name, value in metrics.items():
            self.assertAlmostEqual(evaluations[0]["metrics"][name], value, places=9, msg=name)
        self.foretime("export", best["id"][:10], "best")
        self.assertEqual(
            (self.folder / "best/model.safetensors").read_bytes(), (exported / "model.safetensors").read_bytes()
        )

        self.assertEqual(self.json("queue")["jobs"]["succeeded"], 12)
        self.assertRegex(self.foretime("queue", "--prometheus"), re.compile(r"^foretime_\w+.* 12(\.0)?$", re.MULTILINE))
        self.assertIn("succeeded", self.foretime("queue"))

    def test_two_sweeps_of_one_name_are_told_apart(self):
        ids = [self.json("submit", "sweep.yaml", f"trainer.seed={seed}")["sweep"] for seed in (1, 2)]
        lines = [line.split() for line in self.foretime("status").splitlines() if "widths" in line]
        self.assertEqual([line[1] for line in lines], [ids[0][:8]] * 2 + [ids[1][:8]] * 2)
        self.assertEqual([line[2] for line in lines], ["widths-0", "widths-1"] * 2)
        self.assertNotIn(
            "sweep  ", self.foretime("status", ids[0]).split("\n\n")[1], "of one sweep the column says nothing"
        )

    def test_the_command_for_agents_names_data_outside_of_this_folder(self):
        (self.folder / "mine").symlink_to(SAMPLES)
        self.write("linked.yaml", (self.folder / "base.yaml").read_text().replace(str(SAMPLES), "mine"))
        said = self.foretime("submit", "linked.yaml")
        self.assertIn(f"run it with: foretime agent --data-root . --data-root {SAMPLES}\n", said)
        self.foretime(*said.split("run it with: foretime ")[1].split(), "--until-empty")
        self.assertEqual([job["state"] for job in self.jobs()], ["succeeded"])
        (self.folder / "near").mkdir()
        for name in ("C1.npz", "C12.npz"):
            shutil.copy(SAMPLES / name, self.folder / "near")
        self.write("near.yaml", (self.folder / "base.yaml").read_text().replace(str(SAMPLES), "near"))
        self.assertIn("run it with: foretime agent\n", self.foretime("submit", "near.yaml"))

    # Promise agents/jobs-kept
    def test_all_agents_keep_ended_jobs_as_the_first_one_said(self):
        self.foretime("submit", "base.yaml")
        self.finish(self.agent("--until-empty", "--keep-days", 30))
        self.finish(self.agent("--until-empty", "--keep-days", 1))
        self.assertIn("jobs that ended are kept for 30 days", self.foretime("queue"))
        self.assertIn("jobs that ended are kept for 3 days", self.foretime("queue", "--keep-days", 3))
        self.finish(self.agent("--until-empty", "--keep-days", 30))
        self.assertIn("jobs that ended are kept for 3 days", self.foretime("queue"))
        self.assertEqual(len(self.jobs()), 1)

    def test_clean_removes_attempts_that_others_have_replaced(self):
        job = self.json("submit", "base.yaml")["jobs"][0]["id"]
        self.finish(self.agent("--until-empty"))
        folder = self.folder / "runs" / job
        mark = json.loads((folder / "attempt-1/attempt.json").read_text())
        for name in ("attempt-0", "attempt-0-young", "attempt-0-unmarked", "notes"):
            (folder / name).mkdir()
            if name != "attempt-0-unmarked":
                (folder / name / "attempt.json").write_text(json.dumps({**mark, "attempt": name}))
            if name != "attempt-0-young":
                os.utime(folder / name, (0, 0))
        (self.folder / "runs/somebodys/attempt-0").mkdir(parents=True)
        self.assertEqual(
            self.foretime("clean", "--keep", 0),
            f"runs/{job}/attempt-0\n1 attempts would be removed; --remove does so\n",
        )
        self.assertIn("0 attempts would be removed", self.foretime("clean", "--keep", 2))
        self.assertTrue((folder / "attempt-0").exists())
        self.assertIn("1 attempts removed", self.foretime("clean", "--keep", 0, "--remove"))
        self.assertEqual(
            sorted(path.name for path in folder.iterdir()),
            ["attempt-0-unmarked", "attempt-0-young", "attempt-1", "notes"],
        )
        self.assertTrue((self.folder / "runs/somebodys/attempt-0").exists(), "a folder that the queue does not know")
        self.foretime("evaluate", folder / "attempt-1")

    def test_attempts_of_forgotten_jobs_go_where_that_is_asked_for(self):
        soon = 0.5 / 86400
        folders = []
        for seed in (1, 2):
            job = self.json("submit", "base.yaml", f"trainer.seed={seed}")["jobs"][0]["id"]
            folders.append(self.folder / "runs" / job)
        theirs = self.folder / "runs/0123456789abcdef/attempt-1"
        self.finish(self.agent("--until-empty", "--keep-days", soon))
        theirs.mkdir(parents=True)
        mark = json.loads((folders[0] / "attempt-1/attempt.json").read_text())
        self.assertEqual((mark["job"], mark["attempt"]), (folders[0].name, "attempt-1"))
        (theirs / "attempt.json").write_text(
            json.dumps({**mark, "job": "0123456789abcdef", "queue": "of somebody else"})
        )
        for folder in (*(folder / "attempt-1" for folder in folders), theirs):
            for path in (*folder.iterdir(), folder):
                os.utime(path, (0, 0))
        os.utime(folders[1] / "attempt-1")  # just now
        agent = self.agent()
        self.wait_for("both to be forgotten", lambda: not self.jobs())
        self.assertIn("0 attempts would be removed", self.foretime("clean", "--keep", 0))
        shown = self.foretime("clean", "--forgotten", 1)
        self.assertEqual(shown, f"runs/{folders[0].name}/attempt-1\n1 attempts would be removed; --remove does so\n")
        agent.terminate()
        self.finish(agent)
        self.assertTrue(folders[0].exists())
        agent = self.agent("--clean-attempts", 1)
        self.wait_for("the old one to go", lambda: not folders[0].exists())
        agent.terminate()
        self.finish(agent)
        self.assertTrue((folders[1] / "attempt-1").exists())
        self.assertTrue(theirs.exists())
        self.assertIn("1 attempts removed", self.foretime("clean", "--forgotten", 0, "--remove"))
        self.assertFalse(folders[1].exists())

    def test_cancel_pause_resume_retry_and_priority(self):
        added = self.json("submit", "sweep.yaml")
        first, second = [job["id"] for job in added["jobs"]]
        self.assertIn("the queue: paused", self.foretime("pause"))
        agent = self.agent("--cpus", 2, "--name", "worker")
        self.wait_for("the agent", lambda: [a for a in self.json("queue")["agents"] if a["name"] == "worker"])
        self.assertIn("PAUSED", self.foretime("status"))
        self.foretime("cancel", second[:9])
        self.foretime("priority", first, 7)
        self.foretime("priority", first, "--", -7)
        states = {job["id"]: job for job in self.jobs()}
        self.assertEqual((states[first]["state"], states[first]["priority"]), ("waiting", -7))
        self.assertEqual(states[second]["state"], "cancelled")
        self.foretime("resume")
        self.wait_for("the first job", lambda: self.json("status", first)["state"] == "succeeded")
        self.assertEqual(self.json("status", second)["state"], "cancelled")
        self.foretime("retry", added["sweep"])
        self.wait_for("the second job", lambda: self.json("status", second)["state"] == "succeeded")
        self.assertIn(second, self.foretime("retry", second, code=2))

        # A job that runs is cancelled after a step, with a checkpoint, and can go on from there.
        long = self.json("submit", "base.yaml", "trainer.steps=1000000", "--name", "long")["jobs"][0]["id"]
        self.assertIn(
            "was there already", self.foretime("submit", "base.yaml", "trainer.steps=1000000", "--name", "other")
        )
        self.wait_for("progress", lambda: self.json("status", long)["step"] > 3)
        following = self.background("log", long, "--follow")
        self.assertIn("runs; it ends", self.foretime("cancel", long))
        self.wait_for("the cancelled job", lambda: self.json("status", long)["state"] == "cancelled")
        self.assertIn("step", self.finish(following))
        checkpoint = self.folder / "runs" / self.json("status", long)["checkpoint"]
        self.assertTrue((checkpoint / "manifest.json").exists())
        reached = self.json("status", long)["step"]
        self.foretime("retry", long)
        self.wait_for("the job goes on", lambda: self.json("status", long)["step"] > reached)

        # SIGTERM drains: the job waits for another agent.
        agent.send_signal(signal.SIGTERM)
        self.finish(agent)
        self.assertEqual(self.json("status", long)["state"], "waiting")
        self.assertIn("cancelled or asked", self.foretime("cancel", added["sweep"]))
        self.assertIn("cancelled", self.foretime("submit", "sweep.yaml", code=2))

    def test_following_a_log_shows_the_last_line_of_a_job_that_succeeds(self):
        job = self.json("submit", "base.yaml", "trainer.steps=60")["jobs"][0]["id"]
        following = [self.background("log", job, "--follow") for _ in range(2)]
        self.foretime("agent", "--until-empty", "--data-root", SAMPLES)
        self.assertEqual(self.json("status", job)["state"], "succeeded")
        written = (self.folder / "runs" / job / "attempt-1" / "output.log").read_text().splitlines()
        self.assertGreater(len(written), 5)
        for process in following:
            self.assertEqual(self.finish(process).splitlines(), written)
        self.assertEqual(self.foretime("log", job).splitlines(), written, "a minute later, its end")

    def test_times_of_an_agent_have_bounds(self):
        for option, value in (
            ("--lease-seconds", "0.0004"),
            ("--lease-seconds", "1e300"),
            ("--stall-seconds", "1e300"),
            ("--drain-seconds", "-1"),
        ):
            self.assertIn(option, self.foretime("agent", option, value, "--until-empty", code=2))

    def test_hosts_of_an_agent_are_checked_before_it_starts(self):
        for options, expected in (
            (["--hosts", "h1:0"], "--hosts: found 'h1:0', expected names and CPUs such as h1:4,h2:4"),
            (["--hosts", "h1,h1"], "--hosts: found h1 twice"),
            (["--hosts", "h1", "--host-check", "ping"], "--host-check: found 'ping', expected a program and {host}"),
            (
                ["--hosts", "h1", "--cpus", "2"],
                "--cpus: found 2, expected none with --hosts, which gives the CPUs of each host",
            ),
            (
                ["--hosts", "h1", "--gpus", "0", "--assume-gpus"],
                "--gpus: found 0, which are GPUs of this host: expected none with --hosts",
            ),
            (["--hosts", "h1", "--launcher", "srun"], "launcher 'srun': no {hosts}"),
            (["--launcher", "mpirun --host {hosts} {command}"], "{hosts} is only allowed for an agent with --hosts"),
        ):
            self.assertIn(expected, self.foretime("agent", *options, code=2))

    def test_an_elastic_job_takes_the_ranks_that_are_free(self):
        self.foretime("submit", "base.yaml", "--ranks", "1-8")
        before = self.jobs()[0]
        self.assertEqual((before["ranks"], before["most_ranks"], before["attempt_ranks"]), (1, 8, None))
        self.finish(self.agent("--until-empty", "--cpus", 2))
        job = self.jobs()[0]
        self.assertEqual((job["state"], job["ranks"], job["most_ranks"], job["attempt_ranks"]), ("succeeded", 1, 8, 2))
        self.assertIn("1 to 8 (2 in attempt 1) ranks, 1 CPUs and 0 GPUs each", self.foretime("status", job["id"]))

    def test_an_agent_whose_embedded_redis_is_killed_starts_it_again(self):
        self.write_sweep()
        agent = self.agent("--lease-seconds", 3)
        folder = str((self.folder / "runs/.redis").resolve())

        def processes(text):
            found = {}
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    line = (entry / "cmdline").read_text().replace("\0", " ") if entry.name.isdigit() else ""
                    place = os.readlink(entry / "cwd") if line else ""  # no argument of the server names its folder
                except OSError:
                    continue
                if (folder in line or place.startswith(folder)) and line.startswith(text):
                    found[int(entry.name)] = line
            return found

        guardians = self.wait_for("a guardian", lambda: processes("ft-redis"))
        servers = self.wait_for("a server", lambda: processes("redis-server"))
        for pid in [*guardians, *servers]:
            os.kill(pid, signal.SIGKILL)
        self.wait_for("a new server", lambda: set(processes("redis-server")) - set(servers))
        self.assertIsNone(agent.poll())
        self.foretime("submit", "sweep.yaml")
        self.wait_for("the jobs", lambda: {job["state"] for job in self.jobs()} == {"succeeded"})
        agent.send_signal(signal.SIGTERM)
        self.finish(agent)
        self.wait_for("nothing is left", lambda: not processes(""))

    def test_files_outside_of_the_data_roots_fail_the_job(self):
        (self.folder / "inside").mkdir()
        self.write("inside/README", "an empty data root is one that is not mounted")
        self.foretime("submit", "sweep.yaml")
        self.foretime("agent", "--data-root", "inside", "--until-empty", code=7)
        for job in self.jobs():
            self.assertEqual(job["state"], "failed", job)
            self.assertIn(str(SAMPLES), job["error"])
