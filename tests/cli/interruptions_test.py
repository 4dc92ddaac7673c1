"""What ends a training from outside: signals, closed terminals and pipes, a run folder that goes, limits of files."""
import os
import pty
import resource
import shutil
import signal
import subprocess

from program import FORETIME, LIMIT, SAMPLES, ProgramTest, environment, launch, wait_until
from queue_case import QueueTest
from resume_test import children_of, name_of

ENDLESS = dict(trainer__steps=1000000, trainer__log_every=1)


class InterruptedTrainingTest(ProgramTest):
    def begin(self, ranks=1, before=(), **changes):
        """A training that does not end by itself, after its third step."""
        command = [*before, *launch(ranks), FORETIME, *map(str, self.training(**{**ENDLESS, **changes}))]
        process = subprocess.Popen(
            command,
            env=environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(self.end, process)
        self.wait_for_step(3, process)
        return process

    def end(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def wait_for_step(self, step, process=None):
        def reached():
            if process is not None and process.poll() is not None:
                self.fail(process.communicate())
            file = self.folder / "run/metrics.jsonl"
            lines = file.read_text().splitlines() if file.exists() else []
            return len(lines) > step

        self.assertTrue(wait_until(reached), f"no step {step}")

    def checkpoints(self):
        return sorted(path.name for path in (self.folder / "run/checkpoints").glob("step-*"))

    def last_line(self):
        return (self.folder / "run/log.txt").read_text().splitlines()[-1]

    def expect_stop(self, process, how):
        output = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, output)
        self.assertEqual(len(self.checkpoints()), 1, output)
        self.assertRegex(
            self.last_line(), rf"stopped by {how} at step \d+: checkpoint written; the same command continues"
        )

    # Promise signals/repeated: SIGTERM, SIGINT and SIGHUP, also repeated, stop a training with a checkpoint and exit
    # code 75; `nohup` is respected
    def test_a_hangup_and_repeated_signals_stop_it_with_a_checkpoint(self):
        for how, signals in (
            ("signal 1 (Hangup)", [signal.SIGHUP]),
            ("signal 15 (Terminated)", 50 * [signal.SIGTERM]),
            ("signal 2 (Interrupt)", 2 * [signal.SIGINT]),
            ("signal 15 (Terminated)", [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM]),
        ):
            with self.subTest(how=how, count=len(signals)):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                process = self.begin()
                for each in signals:  # without a pause: as GNU timeout does, and 48 times more
                    process.send_signal(each)
                self.expect_stop(process, how.replace("(", r"\(").replace(")", r"\)"))

    # Promise signals/repeated
    def test_signals_that_come_until_it_has_ended_change_nothing(self):
        process = self.begin()
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
        self.expect_stop(process, "signal 15.*")

    def test_nohup_keeps_it_from_hearing_of_a_hangup(self):
        process = self.begin(before=["nohup"])
        process.send_signal(signal.SIGHUP)
        self.wait_for_step(len(self.lines_of()) + 5, process)
        process.send_signal(signal.SIGTERM)
        self.expect_stop(process, "signal 15.*")

    # Promise signals/terminal: a closed terminal loses no training and no job; without a reader trainings continue, and
    # printing commands end quietly
    def test_a_terminal_that_is_closed_stops_it_with_a_checkpoint(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(FORETIME, [FORETIME, *map(str, self.training(**ENDLESS))], environment())
        while not (self.folder / "run/metrics.jsonl").exists() or len(self.lines_of()) < 3:
            os.read(terminal, 4096)
        os.close(terminal)  # the kernel sends SIGHUP, and writes fail from now on
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 75)
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertIn("stopped by signal 1 (Hangup)", self.last_line())

    def test_without_a_reader_it_trains_on(self):
        for stream in ("stdout", "stderr"):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            read, write = os.pipe()
            with subprocess.Popen(
                [FORETIME, *map(str, self.training(trainer__steps=40, trainer__log_every=1))],
                env=environment(),
                cwd=self.folder,
                **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: write},
            ) as process:
                os.close(write)
                os.close(read)
                self.assertEqual(process.wait(timeout=LIMIT), 0, stream)
            self.assertEqual([line["step"] for line in self.lines_of() if line["kind"] == "train"], list(range(1, 41)))
            self.assertIn("finished at step 40", self.last_line())

    # Promise signals/checkpoints: checkpoints are written by the clock, and when `mpirun` begins to end its ranks, at
    # one step on all ranks
    def test_a_checkpoint_is_written_by_the_clock_at_one_step_on_all_ranks(self):
        for ranks in (1, 2):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            process = self.begin(ranks, checkpoint__every_minutes=1e-4, checkpoint__keep_last=1000000)
            self.assertTrue(wait_until(lambda: len(self.checkpoints()) > 2), "no checkpoint by the clock")
            os.kill(
                [pid for pid in [process.pid, *children_of(process.pid)] if name_of(pid) == "foretime"][-1],
                signal.SIGTERM,
            )
            output = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 75, output)
            # Its bytes are those of a checkpoint that was due by its step.
            saved = self.checkpoints()[0]
            step = int(saved.removeprefix("step-"))
            timed = {path.name: path.read_bytes() for path in (self.folder / "run/checkpoints" / saved).iterdir()}
            self.train(
                ranks=ranks, trainer__steps=step, trainer__log_every=1, run__directory=self.folder / f"straight{ranks}"
            )
            self.assertEqual(timed["model.safetensors"], self.checkpoint(step, f"straight{ranks}")["model.safetensors"])

    # Promise signals/checkpoints
    def test_mpirun_that_ends_its_ranks_leaves_a_checkpoint(self):
        """It sends SIGCONT, waits, sends SIGTERM, waits and sends SIGKILL; the first of these has a checkpoint written."""
        process = self.begin(2)
        rank = [pid for pid in children_of(process.pid) if name_of(pid) == "foretime"][-1]
        os.kill(rank, signal.SIGCONT)
        self.assertTrue(wait_until(self.checkpoints), "no checkpoint")
        self.wait_for_step(len(self.lines_of()) + 2, process)
        self.assertIsNone(process.poll())

    # Promise storage/disk-obstacles
    def test_a_run_folder_that_goes_is_the_storage_failing(self):
        process = self.begin()
        os.rename(self.folder / "run", self.folder / "gone")
        output = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 74, output)
        self.assertIn("metrics.jsonl: cannot be written: open: No such file or directory", output[1])
        self.assertRegex(
            (self.folder / "gone/log.txt").read_text().splitlines()[-1], "failed: .*metrics.jsonl: cannot be written"
        )

    def test_a_run_folder_that_is_removed_does_not_come_back(self):
        for every in (1, 1000000):
            process = self.begin(checkpoint__every_steps=every, checkpoint__keep_last=1)
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            for _ in range(5):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
            output = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 74, output)
            self.assertIn("No such file or directory", output[1])
            self.assertFalse((self.folder / "run/config.yaml").exists())
            shutil.rmtree(self.folder / "run", ignore_errors=True)

    def test_a_limit_of_file_sizes_is_the_storage_failing(self):
        limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        done = subprocess.run(
            [FORETIME, *map(str, self.training(trainer__steps=10, model__hidden=64))],
            env=environment(),
            cwd=self.folder,
            preexec_fn=limited,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, 74, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual([str(path) for path in self.folder.rglob("*foretime-tmp*")], [])

    def test_a_log_of_both_streams_ends_with_the_error(self):
        command = [
            str(word)
            for word in self.training(optimizer__learning_rate=1e30, optimizer__clip_norm=0)
            if word != "--quiet"
        ]
        done = subprocess.run(
            [FORETIME, *command],
            env=environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, 3, done.stdout)
        lines = done.stdout.splitlines()
        self.assertIn("training has diverged", lines[-1])
        self.assertTrue(lines[0].startswith("data "), lines[0])
        self.assertIn("failed: step", self.last_line())
        self.assertIn("training has diverged", self.last_line())


class FoldersOfRunsTest(ProgramTest):
    def test_a_run_without_a_checkpoint_does_not_occupy_its_folder(self):
        self.train(code=3, optimizer__learning_rate=1e30, optimizer__clip_norm=0)
        self.write("run/notes.txt", "mine")
        done = self.train(optimizer__learning_rate=0.001)
        self.assertIn("run: holds a run without a checkpoint; starting it again", done.stderr)
        self.assertEqual((self.folder / "run/notes.txt").read_text(), "mine")
        # One with a checkpoint is kept, and full keys say what differs.
        text = self.train(code=2, model__layers=1, optimizer__learning_rate=0.002).stderr
        self.assertIn("\n  model.layers: 2 -> 1\n  optimizer.learning_rate: 0.001 -> 0.002\n", text)

    def test_another_folder_with_a_config_yaml_is_left_alone(self):
        (self.folder / "run").mkdir()
        self.write("run/config.yaml", "trainer: {steps: 3}\n")
        self.write("run/data.json", "[1, 2]\n")
        self.expect_message(self.train(code=2).stderr, "run/config.yaml")
        self.assertEqual((self.folder / "run/data.json").read_text(), "[1, 2]\n")

    def test_fewer_steps_than_a_run_has_are_named(self):
        self.train(trainer__steps=6)
        self.assertIn("already at step 6 of 2: no steps are left", self.train(trainer__steps=2).stderr)


class OutputsTest(QueueTest):
    def test_a_reader_that_leaves_ends_a_command_quietly(self):
        self.foretime("submit", "sweep.yaml")
        self.train()
        for command in (
            ["status", "--json"],
            ["leaderboard"],
            ["config", "--reference"],
            ["status", "--watch=0.05"],
            ["rank", "run", SAMPLES / "C1.npz"],
            ["evaluate", "run"],
            ["evaluate", "run", "--json"],
        ):
            read, write = os.pipe()
            process = subprocess.Popen(
                [FORETIME, *command],
                env=environment(),
                cwd=self.folder,
                stdout=write,
                stderr=subprocess.PIPE,
                text=True,
            )
            os.close(write)
            os.close(read)
            self.assertEqual(process.communicate(timeout=LIMIT)[1], "", command)
            self.assertEqual(process.returncode, 141, command)

    # Promise signals/terminal
    def test_an_agent_drains_when_its_terminal_is_closed(self):
        self.write("base.yaml", (self.folder / "base.yaml").read_text().replace("steps: 6", "steps: 1000000"))
        self.foretime("submit", "base.yaml")
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(FORETIME, [FORETIME, "agent", "--data-root", str(SAMPLES), "--cpus", "1"], environment())
        self.wait_for("a step", lambda: (jobs := self.jobs()) and jobs[0]["step"] > 2)
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        job = self.jobs()[0]
        self.assertEqual((job["state"], job["failures"]), ("waiting", 0))
        self.assertIn("checkpoints/step-", job["checkpoint"])

    # Promise signals/agent-gone: active jobs whose agent is gone are marked
    def test_jobs_of_an_agent_that_is_gone_are_marked(self):
        self.write("base.yaml", (self.folder / "base.yaml").read_text().replace("steps: 6", "steps: 1000000"))
        self.foretime("submit", "base.yaml")
        agent = self.agent("--cpus", 1, "--lease-seconds", 1)
        self.wait_for("a step", lambda: self.jobs()[0]["step"] > 2)
        agent.send_signal(signal.SIGKILL)
        agent.communicate()
        self.wait_for("the lease to run out", lambda: self.jobs()[0]["overdue_ms"] > 0)
        self.assertRegex(
            self.foretime("status"), r" lost .* lost: no word from .*; its lease ran out \d+ s ago; waits for an agent"
        )
        self.assertIsNone(self.jobs()[0]["eta_seconds"])
