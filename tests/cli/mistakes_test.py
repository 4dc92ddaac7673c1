"""Mistakes that would give a wrong result without a word: each is refused or warned of, with what would work."""
import json
import os
import re
import socket
import subprocess
import zlib

from program import FORETIME, LIMIT, SAMPLES, ProgramTest, environment, launch, wait_until

SWEEP = """
method: grid
metric: {{name: {metric}{goal}}}
settings: {settings}
parameters: {{optimizer.learning_rate: {{values: [0.01, 0.001]}}}}
"""


class MetricTest(ProgramTest):
    def refused(self, *places, code=2, **changes):
        text = self.train(code=code, **changes).stderr
        self.expect_message(text, *places)
        self.assertFalse((self.folder / "run/metrics.jsonl").exists())
        return text

    def submitted(self, code=2, metric="holdout/mae", goal="", **changes):
        lines = [line.replace("=", ": ", 1) for line in self.settings(**changes)]
        self.write(
            "base.yaml", "".join(f"{line}\n" for line in lines if not line.startswith(("run.", "trainer.metric")))
        )
        self.write("sweep.yaml", SWEEP.format(metric=metric, goal=goal, settings="base.yaml"))
        return self.run_foretime("submit", "sweep.yaml", "--dry-run", code=code).stderr

    # Promise mistakes/metric-unknown: `train` and `submit` refuse a metric that is unknown or not measured by the run
    def test_training_for_an_unknown_metric_is_refused_at_its_start(self):
        self.refused("trainer.metric", trainer__metric="holdout/mea")
        self.refused("trainer.metric", trainer__metric="val_loss")
        self.refused(trainer__metric="holdout/tau")
        self.refused(trainer__metric="holdout/OPA")

    # Promise mistakes/metric-unknown
    def test_training_for_a_metric_that_is_not_measured_is_refused(self):
        self.refused(trainer__metric="valid/mae")
        self.refused(trainer__metric="holdout/mae", data__holdout=0)
        self.refused(
            "loss.huber_weight",
            trainer__metric="holdout/mae",
            loss__type="listmle",
            loss__target="runtime",
            loss__standardize_target="false",
        )
        self.refused(
            "early_stop.patience", trainer__metric="test/mae", trainer__early_stop__patience=2, trainer__eval_every=2
        )
        self.refused(trainer__metric="holdout/contest_score")

    # Promise mistakes/metric-direction: every metric is optimised, and ranked by `leaderboard`, in its own direction
    def test_a_metric_is_optimised_in_its_own_direction(self):
        self.refused(trainer__metric="holdout/mae", trainer__metric_goal="maximize")
        self.train(trainer__metric="holdout/mae", trainer__eval_every=2, optimizer__learning_rate=0.05)
        values = {line["step"]: line["holdout/mae"] for line in self.lines_of() if line["kind"] == "eval"}
        self.assertEqual(len(values), 3)
        final = [line for line in self.lines_of() if line["kind"] == "final"]
        self.assertEqual(values[final[0]["best_step"]], min(values.values()))

    def test_a_metric_that_chooses_no_checkpoint_is_warned_of(self):
        text = self.train(trainer__metric="test/kendall_tau").stderr
        self.assertIn("warning: trainer.metric test/kendall_tau chooses no checkpoint", text)
        self.assertNotIn("warning", self.train(run__directory=self.folder / "other").stderr)

    def test_submitting_an_unknown_metric_is_refused(self):
        for metric, nearest in (("val_loss", "a metric of mae, rmse"), ("holdout/mea", "did you mean holdout/mae?")):
            text = self.submitted(metric=metric)
            self.assertIn(f"metric.name: found {metric}", text)
            self.assertIn(nearest, text)
            self.assertIn("sweep.yaml:3", text)
        self.assertIn("data.valid names no groups", self.submitted(metric="valid/mae"))
        self.submitted(code=0)
        # A job of its own is compared, too, so that the default metric must be one that it measures.
        self.expect_message(self.run_foretime("submit", "base.yaml", "--dry-run", code=2).stderr, "trainer.metric")
        self.expect_message(
            self.run_foretime("submit", "base.yaml", "trainer.metric=holdout/mea", "--dry-run", code=2).stderr
        )

    # Promise mistakes/metric-direction
    def test_a_sweep_in_the_wrong_direction_is_refused(self):
        self.assertIn(
            "metric.goal: found minimize, and holdout/kendall_tau is better when it is larger",
            self.submitted(metric="holdout/kendall_tau", goal=", goal: minimize"),
        )
        self.submitted(code=0, metric="holdout/kendall_tau")
        self.submitted(code=0, goal=", goal: minimize")


class DataTest(ProgramTest):
    # Promise mistakes/test-groups: groups of the test set are not trained on
    def test_groups_of_the_test_set_are_not_trained_on(self):
        both = dict(data__train="[C1.npz, C10.npz, C12.npz]", data__test="[C10.npz]")
        text = self.train(code=2, **both).stderr
        self.expect_message(text)
        self.assertIn("C10.npz", self.train(data__overlap="warn", **both).stderr)
        # Under another name they are the same.
        os.symlink(SAMPLES / "C12.npz", self.folder / "copy.npz")
        text = self.train(code=2, data__valid=f"[{self.folder}/copy.npz]", run__directory=self.folder / "other").stderr
        self.expect_message(text)
        self.assertIn("copy.npz", text)

    # Promise mistakes/evaluate-files: named files are evaluated without the run's indices
    def test_named_files_are_evaluated_without_the_runs_indices(self):
        self.train()
        checkpoint = self.folder / "run/checkpoints/step-00000006"
        state = json.loads((checkpoint / "state.json").read_text())
        state["settings"] = state["settings"].replace('eval_indices: ""', "eval_indices: ./none.json")
        self.assertIn("none.json", state["settings"])
        self.rewrite(checkpoint, "state.json", json.dumps(state).encode())
        self.assertIn("none.json", self.run_foretime("evaluate", "run", code=3).stderr)
        self.assertIn("test/kendall_tau", self.json_of("evaluate", "run", SAMPLES / "C10.npz", "--json")["metrics"])

    def rewrite(self, checkpoint, name, content):
        """Another file in a checkpoint, as if it had been written so."""
        (checkpoint / name).write_bytes(content)
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        entry = manifest["files"][name]
        entry.update(
            {
                key: value
                for key, value in (("bytes", len(content)), ("size", len(content)), ("crc32", zlib.crc32(content)))
                if key in entry
            }
        )
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))


class RunDirectoryTest(ProgramTest):
    def long_training(self):
        return self.start_training(trainer__steps=100000, trainer__log_every=1)

    # Promise mistakes/run-directory-locked: one process at a time writes to a run directory
    def test_a_second_training_in_a_run_directory_is_refused(self):
        first = self.long_training()
        try:
            lock = self.folder / "run/run.lock"
            self.assertTrue(wait_until(lambda: (self.folder / "run/metrics.jsonl").exists()))
            text = self.train(code=2, trainer__steps=100000).stderr
            self.assertIn(f"process {first.pid} on {socket.gethostname()} writes to this run directory", text)
            self.assertEqual(json.loads(lock.read_text())["pid"], first.pid)
        finally:
            first.kill()
            first.communicate()
        # Of a process that was killed nothing is left but its name.
        self.assertTrue(lock.exists())
        steps = max(line["step"] for line in self.lines_of())
        self.train(trainer__steps=steps + 3)
        self.assertFalse(lock.exists())

    # Promise mistakes/run-directory: a run directory that cannot be made is named with its reason
    def test_a_run_directory_that_cannot_be_made(self):
        for folder in ("/proc/x", self.write("file", "") / "run"):
            text = self.train(code=2, run__directory=folder).stderr
            self.expect_message(text, f"run.directory: {folder}")
            self.assertNotIn("filesystem error", text)


class CommandTest(ProgramTest):
    # Promise mistakes/nearest-name: unknown commands, options and settings are answered with the nearest
    def test_commands_options_and_settings_are_suggested(self):
        for arguments in (
            ("trian", "settings.yaml"),
            ("eval", "run"),
            ("data", "pakc", "x"),
            ("zebra",),
            ("train", "x.yaml", "--quite"),
            ("agent", "--until-emty"),
            ("rank", "a", "b", "--candidate", "c"),
            ("serve", "x", "--sokcet", "y"),
            ("doctor", "now"),
        ):
            with self.subTest(arguments):
                self.expect_message(self.run_foretime(*arguments, code=2).stderr)
        for key in ("optimizer.lr", "lr", "batch_size", "trainer.max_epochs", "optimizer.learning_rat"):
            with self.subTest(key):
                self.expect_message(self.run_foretime("train", self.empty_settings(), f"{key}=1", code=2).stderr)

    # Promise mistakes/nearest-name
    def test_files_of_other_commands_name_their_command(self):
        self.write("sweep.yaml", SWEEP.format(metric="holdout/mae", goal="", settings="base.yaml"))
        for command in ("train", "config", "plan"):
            self.expect_message(self.run_foretime(command, "sweep.yaml", code=2).stderr, "sweep.yaml")
        self.write("tune.yaml", "finetune: {model: a.foretime, records: [b.json]}\n")
        self.expect_message(self.run_foretime("train", "tune.yaml", code=2).stderr)
        self.write("trials.yaml", "entries: [{label: a, kind: model}]\n")
        for command in ("train", "submit"):
            self.expect_message(self.run_foretime(command, "trials.yaml", code=2).stderr)

    # Promise mistakes/export-format: `export` writes the format of the file's name, or nothing
    def test_export_to_an_unknown_format_is_refused(self):
        self.train()
        for name in ("model.onnx", "model.pth", "model.safetensors"):
            text = self.run_foretime("export", "run", name, code=2).stderr
            self.expect_message(text)
            self.assertFalse((self.folder / name).exists())
        self.expect_message(self.run_foretime("export", "run", "a.pt", "--format", "bundle", code=2).stderr)
        self.run_foretime("export", "run", "v1.5", "--format", "checkpoint")
        self.assertTrue((self.folder / "v1.5/manifest.json").exists())


class IgnoredOptionTest(ProgramTest):
    """An option that would be without effect is refused, with the nearest thing that works."""

    def refused(self, *arguments, expected):
        text = self.run_foretime(*arguments, code=2).stderr
        for part in expected:
            self.assertIn(part, text)

    # Promise mistakes/option-without-effect: an option without effect is refused, with the nearest one that works
    def test_a_state_or_a_sweep_that_would_not_choose_what_is_shown(self):
        lines = [line.replace("=", ": ", 1) for line in self.settings() if not line.startswith("run.")]
        self.write("job.yaml", "".join(f"{line}\n" for line in lines))
        job = self.json_of("submit", "job.yaml", "--json")["jobs"][0]["id"]
        self.refused(
            "status",
            job[:6],
            "--state",
            "dead",
            expected=(f"--state dead: found job {job}", "foretime status --state dead"),
        )
        self.refused(
            "status", "--sweep", "abc", job, expected=("--sweep abc: found ids as well", f"foretime status abc {job}")
        )
        self.assertEqual(self.json_of("status", job, "--json")["id"], job)
        self.assertEqual(self.json_of("status", job, job, "--state", "dead", "--json")["jobs"], [])

    # Promise mistakes/option-without-effect
    def test_options_of_another_format_of_rankings(self):
        self.train()
        rank = ("rank", "run", SAMPLES / "C10.npz")
        for more in ((), ("--format", "json")):
            self.refused(
                *rank,
                "--collection",
                "layout:xla:random",
                *more,
                expected=("--collection layout:xla:random: ", "--format submission"),
            )
        self.refused(
            *rank,
            "--format",
            "submission",
            "--collection",
            "tile:xla",
            "--top",
            3,
            expected=("--top 3: ", "--format csv or json"),
        )
        self.run_foretime(*rank, "--format", "submission", "--collection", "tile:xla")

    def test_a_licence_that_would_be_noted_nowhere(self):
        self.train()
        self.refused(
            "export",
            "run",
            "out",
            "--licence",
            "MIT",
            expected=("--licence MIT: a checkpoint folder records no licence", "out.foretime"),
        )
        self.assertFalse((self.folder / "out").exists())

    def test_options_of_an_agent_whose_jobs_stay_on_this_host(self):
        for launcher in ("auto", "direct"):
            self.refused(
                "agent",
                "--until-empty",
                "--listen",
                "127.0.0.1:7400",
                "--launcher",
                launcher,
                expected=(
                    f"--listen 127.0.0.1:7400: the launcher {launcher} starts jobs on this host",
                    "--launcher mpirun",
                ),
            )
        self.refused(
            "agent",
            "--until-empty",
            "--host-check",
            "ping -c1 {host}",
            expected=("--host-check: found no --hosts", "--hosts h1:8,h2:8"),
        )
        self.assertFalse((self.folder / "runs").exists())
        self.assertIn(
            "no job was ever submitted", self.run_foretime("agent", "--until-empty", "--listen", "none", code=4).stderr
        )

    def test_settings_that_named_files_would_replace(self):
        self.train()
        for key in ("data.root", "data.test", "data.train", "data.valid"):
            self.refused(
                "evaluate",
                "run",
                SAMPLES / "C10.npz",
                "--set",
                f"{key}=x",
                expected=(f"--set {key}: found files as well", "leave out"),
            )
        self.run_foretime("evaluate", "run", "--set", "data.test=[C11.npz]")

    def test_settings_that_are_about_no_named_file(self):
        self.train()
        for setting in ("data.holdout=0.5", "data.train_fraction=0.5", "data.duplicates=first", "data.overlap=warn"):
            key = setting.split("=")[0]
            self.refused(
                "evaluate",
                "run",
                SAMPLES / "C10.npz",
                "--set",
                setting,
                expected=(f"--set {key}: found files as well", "leave out the files to evaluate the sets of the run"),
            )
        self.run_foretime("evaluate", "run", SAMPLES / "C10.npz", "--set", "data.max_eval_candidates=5")
        self.run_foretime("evaluate", "run", "--set", "data.holdout=0.5")


class AgentTest(ProgramTest):
    # Promise mistakes/gpus: GPUs that do not exist are refused
    def test_gpus_that_are_not_there_are_refused(self):
        text = self.run_foretime("agent", "--gpus", "0,96", "--until-empty", code=2).stderr
        self.assertIn("--gpus: found", text)
        self.assertIn("--assume-gpus skips this check", text)
        self.assertFalse((self.folder / "runs").exists())
        self.assertIn(
            "no job was ever submitted",
            self.run_foretime("agent", "--gpus", "0,96", "--assume-gpus", "--until-empty", code=4).stderr,
        )

    # Promise mistakes/agent-exit-code: an agent whose jobs failed reports it by its exit code
    def test_an_agent_whose_jobs_failed_says_so(self):
        lines = [line.replace("=", ": ", 1) for line in self.settings() if not line.startswith("run.")]
        self.write("job.yaml", "".join(f"{line}\n" for line in lines))
        agent = ("agent", "--until-empty", "--data-root", SAMPLES, "--data-root", self.folder)
        self.run_foretime("submit", "job.yaml")
        self.run_foretime(*agent)
        self.run_foretime("submit", "job.yaml", "data.train=none.npz", "--max-attempts", 1)
        done = self.run_foretime(*agent, code=7)
        self.assertIn("1 jobs failed or died while this agent ran", done.stderr + done.stdout)
        self.assertRegex(done.stderr + done.stdout, "finished 1 jobs: 1 failed; exits\n")
        done = self.run_foretime(*agent)  # which ran none
        self.assertIn(
            "1 jobs of the queue failed or died earlier and will not run by themselves: foretime retry ID",
            done.stderr + done.stdout,
        )


class RanksTest(ProgramTest):
    # Promise mistakes/ranks: under `mpirun` each rank prints its error once, with its rank
    def test_each_rank_prints_an_error_of_all_ranks_once_with_its_rank(self):
        for arguments, message in (
            (("train", "none.yaml"), "none.yaml"),
            (("train", self.empty_settings(), "--quite"), "--quiet?"),
            (self.training(data__train="none.npz"), "none.npz"),
            (
                self.training(model__readout="[configurable_mean]"),
                "needs configurable nodes, which only layout data have; for data.format",
            ),
        ):
            with self.subTest(message):
                code = 3 if message == "none.npz" else 2
                lines = [
                    line
                    for line in self.run_foretime(*arguments, ranks=3, code=code).stderr.splitlines()
                    if line.startswith("foretime: ")
                ]
                # mpirun may end the other ranks before they have printed theirs.
                self.assertIn(len(lines), (1, 2, 3), lines)
                self.assertEqual(len({line[: len("foretime: rank 0: ")] for line in lines}), len(lines), lines)
                for line in lines:
                    self.assertRegex(line, rf"^foretime: rank [012]: .*{re.escape(message)}")

    def test_the_message_stands_alone_where_mpirun_is_quiet(self):
        # MPI_Abort would add a paragraph of its own, which --quiet does not leave out.
        done = subprocess.run(
            [*launch(3), "--quiet", FORETIME, "train", "none.yaml"],
            env=environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"\A(foretime: rank [012]: none\.yaml: [^\n]*\n){1,3}\Z")

    # Promise mistakes/ranks
    def test_an_error_of_one_rank_is_printed_with_its_rank(self):
        # Each rank has a folder of its own, and rank 1's lacks the data: rank 0 lists them, rank 1 cannot read them.
        for rank in range(3):
            folder = self.folder / f"rank{rank}"
            folder.mkdir()
            for name in ("C1.npz", "C12.npz", "C10.npz"):
                (folder / name).write_bytes((SAMPLES / name).read_bytes() if rank != 1 else b"nothing")
        script = self.write("rank.sh", "#!/bin/sh\n" f'cd {self.folder}/rank$OMPI_COMM_WORLD_RANK\nexec "$@"\n')
        script.chmod(0o755)
        done = subprocess.run(
            [*launch(3), script, FORETIME, *map(str, self.training(data__root="."))],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("foretime: rank 1: "), 1, done.stderr)
