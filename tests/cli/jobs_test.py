"""Sweeps and jobs as their users run them: submit, agent, status, leaderboard and the rest, over the Redis that foretime starts."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from program import FORETIME, SAMPLES, ProgramTest, environment, flip_byte, wait_until

BASE = """
data: {format: programs, root: SAMPLES, train: [C1.npz, C12.npz], holdout: 0.2, max_eval_candidates: 20}
model: {type: gcn, hidden: 8, readout: [mean], features: {transform: zscore}}
loss: {type: huber, target: log_runtime, standardize_target: true}
sampler: {groups_per_batch: 2, candidates_per_group: 6, samples_per_group: 4}
trainer: {steps: 6, eval_every: 3, metric: holdout/mae, metric_goal: minimize, device: cpu, threads: 1}
"""
SWEEP = """
name: widths
settings: base.yaml
method: grid
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {values: [8, 12]}
"""


class JobsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.processes = []
        self.addCleanup(self.kill_all)
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        self.write_sweep()

    def write_sweep(self, more="", text=SWEEP):
        self.write("sweep.yaml", text + more)

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def foretime(self, *arguments, code=0, **more):
        done = self.run_foretime(*arguments, code=code, timeout=120, **more)
        return done.stderr if code else done.stdout

    def json(self, *arguments):
        return json.loads(self.foretime(*arguments, "--json"))

    def background(self, *arguments):
        self.processes.append(self.start(*arguments))
        return self.processes[-1]

    def agent(self, *arguments):
        return self.background("agent", "--data-root", SAMPLES, *arguments)

    def finish(self, process, code=0):
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, output + errors)
        return output

    def jobs(self, *arguments):
        return self.json("status", *arguments)["jobs"]

    def wait_for(self, what, condition, seconds=60):
        if not (value := wait_until(condition, seconds, 0.1)):
            self.fail(f"{what}: not within {seconds} s\n{self.foretime('status')}")
        return value

    def test_a_sweep_from_submit_to_leaderboard(self):
        self.write_sweep("seeds: 2\nthen: [{evaluate: {files: [C11.npz]}}, export]\n")
        dry = self.foretime("submit", "sweep.yaml", "--dry-run")
        self.assertIn("model.hidden", dry)
        self.assertFalse((self.folder / "runs").exists(), "a dry run starts no Redis")
        added = self.json("submit", "sweep.yaml")
        self.assertEqual((added["added"], added["existing"]), (12, 0))  # 2 widths, 2 seeds, each trained, evaluated, exported
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
        rows = self.rows_of(self.foretime("leaderboard", sweep[:5], "--trials", "--csv", "--with", "holdout/kendall_tau"))
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
            self.assertAlmostEqual(row["deviation"], abs(values[0] - values[1]) / 2 ** 0.5, places=12)
        # The best first, whichever direction a metric has.
        for metric, larger_is_better in (("holdout/pairwise_accuracy", True), ("holdout/kendall_tau", True), ("holdout/mae", False)):
            values = [float(row[metric]) for row in self.rows_of(self.foretime("leaderboard", sweep, "--trials", "--csv", "--metric", metric))]
            self.assertEqual(len(values), 4)
            self.assertEqual(values, sorted(values, reverse=larger_is_better), metric)
            self.assertLess(min(values), max(values), metric)
        self.assertIn("metric test/nothing: no trial of sweep", self.foretime("leaderboard", "--metric", "test/nothing", code=2))

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
        self.assertEqual((self.folder / "best/model.safetensors").read_bytes(), (exported / "model.safetensors").read_bytes())

        self.assertEqual(self.json("queue")["jobs"]["succeeded"], 12)
        self.assertRegex(self.foretime("queue", "--prometheus"), re.compile(r"^foretime_\w+.* 12(\.0)?$", re.MULTILINE))
        self.assertIn("succeeded", self.foretime("queue"))

    def test_submissions_are_printed_job_by_job(self):
        dry = self.json("submit", "sweep.yaml", "--dry-run")
        self.assertEqual((sorted(dry), dry["name"], dry["warnings"]), (["jobs", "name", "sweep", "warnings"], "widths", []))
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
        self.write("large.yaml", """
settings: base.yaml
method: random
run_cap: 20000
metric: {name: holdout/mae, goal: minimize}
parameters:
  optimizer.learning_rate: {distribution: log_uniform_values, min: 0.0001, max: 0.01}
  model.hidden: {values: [8, 12]}
""")
        for more in ([], ["--json"]):
            child = subprocess.Popen([FORETIME, "submit", "large.yaml", "--dry-run", *more], cwd=self.folder, stdout=subprocess.PIPE,
                                     text=True, env=environment())
            text = child.stdout.read()
            child.stdout.close()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            self.assertEqual(len(json.loads(text)["jobs"]) if more else len(text.splitlines()) - 3, 20000)
            self.assertLess(usage.ru_maxrss, 40 * 1024, "KiB; all of its jobs together are larger")

    def test_status_as_json_of_a_large_queue_holds_few_jobs_in_memory(self):
        self.write("large.yaml", """
settings: base.yaml
method: random
run_cap: 20000
metric: {name: holdout/mae, goal: minimize}
parameters:
  optimizer.learning_rate: {distribution: log_uniform_values, min: 0.0001, max: 0.01}
""")
        sweep = re.search(r"[0-9a-f]{16}", self.foretime("submit", "large.yaml")).group()
        asked = {"queue": ["--limit", "1000000"], "sweep": ["--sweep", sweep, "--limit", "1000000"]}
        for head, more in asked.items():
            with open(self.folder / head, "w") as out:
                child = subprocess.Popen([FORETIME, "status", "--json", *more], cwd=self.folder, stdout=out, env=environment())
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            self.assertLess(usage.ru_maxrss, 48 * 1024, "KiB; all of its jobs together are larger")
        # Read by another process: the memory of this one would count as that of the children that other tests measure.
        read = """
import json, sys
text = open(sys.argv[1]).read()
document = json.loads(text)
assert text == json.dumps(document, indent=2, ensure_ascii=False) + "\\n", "one document"
print(*sorted(document), len({job["id"] for job in document["jobs"]}))
"""
        for head in asked:
            said = subprocess.run([sys.executable, "-c", read, self.folder / head], check=True, capture_output=True, text=True).stdout
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
        self.assertNotIn(listed[0]["id"], [job["id"] for job in self.jobs(first, second, "--limit", 7)], "what runs first comes first")
        named = [job["id"] for job in listed[:3]]
        self.assertEqual([job["id"] for job in self.jobs(*named, "--limit", 1)], named, "jobs that are named are shown")

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
        for name in ("attempt-0", "attempt-0-young", "notes"):
            (folder / name).mkdir()
        os.utime(folder / "attempt-0", (0, 0))
        (self.folder / "runs/somebodys/attempt-0").mkdir(parents=True)
        self.assertEqual(self.foretime("clean", "--keep", 0), f"runs/{job}/attempt-0\n1 attempts would be removed; --remove does so\n")
        self.assertIn("0 attempts would be removed", self.foretime("clean", "--keep", 2))
        self.assertTrue((folder / "attempt-0").exists())
        self.assertIn("1 attempts removed", self.foretime("clean", "--keep", 0, "--remove"))
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["attempt-0-young", "attempt-1", "notes"])
        self.assertTrue((self.folder / "runs/somebodys/attempt-0").exists(), "a folder that the queue does not know")
        self.foretime("evaluate", folder / "attempt-1")

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
        self.assertIn("was there already", self.foretime("submit", "base.yaml", "trainer.steps=1000000", "--name", "other"))
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

    def test_retrying_a_sweep_retries_trials_and_brings_back_what_follows_them(self):
        self.write_sweep("then: [{evaluate: {files: [C11.npz]}}, export]\n", SWEEP.replace("[8, 12]", "[4, 6, 8, 10, 12, 14]"))
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
        random = SWEEP.replace("method: grid", "method: random\nrun_cap: 2").replace("values: [8, 12]", "min: 4, max: 64")
        self.write_sweep(text=random)
        first = self.json("submit", "sweep.yaml")
        grown = self.json("submit", "sweep.yaml", "run_cap=5")
        self.assertEqual((grown["sweep"], grown["added"], grown["existing"]), (first["sweep"], 3, 2))
        self.assertEqual(grown["jobs"][:2], [{**job, "added": False} for job in first["jobs"]])
        self.json("submit", "sweep.yaml")  # and one with fewer takes none away
        self.assertIn("5 trials", self.foretime("status", first["sweep"]))

    def test_times_of_an_agent_have_bounds(self):
        for option, value in (("--lease-seconds", "0.0004"), ("--lease-seconds", "1e300"), ("--stall-seconds", "1e300"), ("--drain-seconds", "-1")):
            self.assertIn(option, self.foretime("agent", option, value, "--until-empty", code=2))

    def test_the_queue_says_how_many_jobs_it_keeps(self):
        self.foretime("submit", "sweep.yaml")
        self.foretime("queue", "--keep-jobs", 1000000)
        self.assertEqual(self.json("queue")["keep_jobs"], 1000000)
        self.assertIn("the newest 1000000 are kept", self.foretime("queue"))
        self.foretime("cancel", self.jobs()[0]["id"], self.jobs()[1]["id"])
        process = self.agent("--until-empty", "--keep-jobs", 2000000)
        _, errors = process.communicate(timeout=120)
        self.assertIn("--keep-jobs 2000000: the queue keeps 1000000", errors)

    def test_a_refused_submission_leaves_no_empty_sweep(self):
        self.assertIn("1000", self.foretime("submit", "sweep.yaml", "--max-attempts", 1001, code=2))
        self.assertFalse((self.folder / "runs").exists(), "no queue was asked")
        self.write_sweep("max_attempts: 1001\n")
        self.assertIn("1000", self.foretime("submit", "sweep.yaml", code=2))
        self.write_sweep()
        self.assertEqual(self.json("submit", "sweep.yaml", "--max-attempts", 1000)["added"], 2)

    def test_without_redis_every_command_says_what_to_do(self):
        commands = (["submit", "sweep.yaml"], ["status"], ["cancel", "a"], ["pause"], ["resume"], ["retry", "a"], ["priority", "a", "1"],
                    ["log", "a"], ["leaderboard"], ["queue"], ["agent", "--until-empty"], ["export", "a", "out"])
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
        for more, expected in (("  model.hiden: {values: [1]}\n", ["model.hiden", "model.hidden"]),
                               ("  optimizer.learning_rate: {values: [0.1, -3]}\n", ["optimizer.learning_rate", "-3"]),
                               ("  model.layers: {distribution: triangular, min: 1, max: 2}\n", ["model.layers", "triangular"]),
                               ("  run.directory: {values: [/tmp/x]}\n", ["run.directory"]),
                               ("methods: random\n", ["methods"])):
            self.write_sweep(more)
            message = self.foretime("submit", "sweep.yaml", code=2)
            for text in expected:
                self.assertIn(text, message)
        self.write_sweep()
        self.assertIn("trainer.stepz", self.foretime("submit", "base.yaml", "trainer.stepz=5", code=2))
        self.assertIn("nothing.yaml", self.foretime("submit", "nothing.yaml", code=2))
        self.assertIn("prefix", self.foretime("status", "--prefix", "a{b", code=2))
        for ranks in ("0", "8-2", "2-", "-2", "2-8-9", "x", "2-70000"):
            self.assertIn(f"--ranks: found {ranks}, expected a number from 1 to 65536 such as 4, or the least and the most such as 2-8",
                          self.foretime("submit", "sweep.yaml", f"--ranks={ranks}", code=2))
        for file in ("sweep.yaml", "base.yaml"):
            self.assertIn("model.norm: found batch", self.foretime("submit", file, "--ranks", "2-8", "model.norm=batch", code=2))
        self.assertFalse((self.folder / "runs").exists())

    def test_hosts_of_an_agent_are_checked_before_it_starts(self):
        for options, expected in ((["--hosts", "h1:0"], "--hosts: found 'h1:0', expected names and CPUs such as h1:4,h2:4"),
                                  (["--hosts", "h1,h1"], "--hosts: found h1 twice"),
                                  (["--hosts", "h1", "--host-check", "ping"], "--host-check: found 'ping', expected a program and {host}"),
                                  (["--hosts", "h1", "--cpus", "2"], "--cpus: found 2, expected none beside --hosts"),
                                  (["--hosts", "h1", "--gpus", "0", "--assume-gpus"], "--gpus: found 0, which are this host's"),
                                  (["--hosts", "h1", "--launcher", "srun"], "launcher 'srun': no {hosts}"),
                                  (["--launcher", "mpirun --host {hosts} {command}"], "{hosts} has a meaning for an agent with --hosts only")):
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
                except OSError:
                    continue
                if folder in line and line.startswith(text):
                    found[int(entry.name)] = line
            return found

        guardians = self.wait_for("a guardian", lambda: processes("ft-redis"))
        servers = self.wait_for("a server", lambda: processes("redis-server"))
        for pid in [*guardians, *servers]:
            os.kill(pid, signal.SIGKILL)
        self.wait_for("a new server", lambda: set(processes("redis-server")) - set(servers))
        self.assertIsNone(agent.poll())
        self.foretime("submit", "sweep.yaml")
        self.wait_for("the jobs", lambda: {job["state"] for job in self.jobs()} == {"succeeded"}, 120)
        agent.send_signal(signal.SIGTERM)
        self.finish(agent)
        self.wait_for("nothing is left", lambda: not processes(""))

    def test_watching_and_submitting_need_no_libtorch(self):
        for command in (["submit", "sweep.yaml"], ["status"], ["leaderboard"], ["queue"]):
            child = subprocess.Popen([FORETIME, *command], cwd=self.folder, env=environment(), stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            self.assertLess(usage.ru_maxrss, 50 * 1024, f"KiB, {command}: LibTorch alone takes more than this")

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

    def test_files_outside_of_the_data_roots_fail_the_job(self):
        (self.folder / "inside").mkdir()
        self.write("inside/README", "an empty data root is one that is not mounted")
        self.foretime("submit", "sweep.yaml")
        self.foretime("agent", "--data-root", "inside", "--until-empty", code=7)
        for job in self.jobs():
            self.assertEqual(job["state"], "failed", job)
            self.assertIn(str(SAMPLES), job["error"])


class ExportTest(ProgramTest):
    def test_export_of_a_run(self):
        self.train(trainer__eval_every=2, trainer__steps=5)
        best = json.loads((self.folder / "run/checkpoints/best.json").read_text())["step"]
        self.run_foretime("export", "run", "out")
        self.assertEqual((self.folder / "out/model.safetensors").read_bytes(), self.checkpoint(best)["model.safetensors"])
        for name in ("config.yaml", "data.json"):
            self.assertEqual((self.folder / "out" / name).read_bytes(), (self.folder / "run" / name).read_bytes())
        self.assertEqual(self.run_foretime("evaluate", "out", "--json").stdout, self.run_foretime("evaluate", "run", "--json").stdout)
        self.assertEqual(self.run_foretime("rank", "out", SAMPLES / "C1.npz").stdout, self.run_foretime("rank", "run", SAMPLES / "C1.npz").stdout)
        self.assertIn("--force", self.run_foretime("export", "run", "out", code=2).stderr)
        self.run_foretime("export", "run/checkpoints/step-00000005", "out", "--force")
        self.assertEqual((self.folder / "out/model.safetensors").read_bytes(), self.checkpoint(5)["model.safetensors"])
        self.run_foretime("export", "out/", "again/")
        self.assertTrue((self.folder / "again/config.yaml").exists())

    def test_what_is_not_an_export_is_never_replaced(self):
        self.train()
        (self.folder / "mine").mkdir()
        self.write("mine/notes.txt", "keep")
        self.run_foretime("export", "run", "mine", "--force", code=2)
        self.assertEqual((self.folder / "mine/notes.txt").read_text(), "keep")
        self.run_foretime("export", "run", "settings.yaml", "--force", code=2)

    def test_a_damaged_checkpoint_is_not_exported(self):
        self.train()
        flip_byte(self.folder / "run/checkpoints/step-00000006/model.safetensors", -1)
        self.assertIn("CRC", self.run_foretime("export", "run", "out", code=3).stderr)
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("out")], [])
