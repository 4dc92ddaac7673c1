"""Runs end as they should and go on from where they were: bytes compared, ranks killed and signalled."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal

from program import LIMIT, SAMPLES, ProgramTest, flip_byte, wait_until


def children_of(pid):
    """Process ids below `pid`, by /proc."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found += [int(path.parent.name)] + children_of(int(path.parent.name))
    return found


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class ResumeTest(ProgramTest):
    def wait_for_step(self, process, step, run="run"):
        def reached():
            self.assertIsNone(process.poll(), process.communicate() if process.poll() is not None else "")
            return self.is_at_step(step, run)

        self.assertTrue(wait_until(reached, 0.02), f"no step {step}")

    def is_at_step(self, step, run="run"):
        metrics = self.folder / run / "metrics.jsonl"
        steps = re.findall(r'"step":(\d+).*\n', metrics.read_text()) if metrics.exists() else []
        return bool(steps) and int(steps[-1]) >= step

    def ranks_of(self, process):
        return [pid for pid in [process.pid] + children_of(process.pid) if name_of(pid) == "foretime"]

    def test_same_seed_same_bytes(self):
        for ranks in (1, 2):
            self.train(ranks=ranks, run__directory=self.folder / f"a{ranks}")
            self.train(ranks=ranks, run__directory=self.folder / f"b{ranks}")
            self.assertEqual(self.checkpoint(6, f"a{ranks}"), self.checkpoint(6, f"b{ranks}"))

    def test_a_run_with_no_step_left_has_a_checkpoint_of_its_own(self):
        """Another attempt may have ended, and remove what it wrote, after its last checkpoint was read."""
        self.train(run__directory=self.folder / "first")
        self.train(
            run__directory=self.folder / "second", checkpoint__resume=self.folder / "first/checkpoints/step-00000006"
        )
        weights = [
            (self.folder / run / "checkpoints/step-00000006/model.safetensors").read_bytes()
            for run in ("first", "second")
        ]
        self.assertEqual(*weights)

    def test_ten_steps_equal_five_a_kill_and_five(self):
        common = dict(
            trainer__log_every=1,
            checkpoint__every_steps=5,
            model__dropout=0.2,
            optimizer__schedule="cosine",
            trainer__eval_every=3,
            checkpoint__keep_last=9,
            model__hidden=64,
            model__layers=4,
            sampler__candidates_per_group=80,
        )
        self.train(ranks=2, trainer__steps=10, run__directory=self.folder / "straight", **common)
        while True:
            process = self.start_training(2, trainer__steps=10, run__directory=self.folder / "killed", **common)
            # So the checkpoint of step 5 is whole.
            wait_until(lambda: self.is_at_step(6, "killed") or process.poll() is not None, 0.01)
            for pid in self.ranks_of(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=LIMIT)
            if not (self.folder / "killed/checkpoints/step-00000010").exists():
                break
            shutil.rmtree(self.folder / "killed")  # it ended before it was killed
        self.train(ranks=2, trainer__steps=10, run__directory=self.folder / "killed", **common)
        self.assertEqual(self.checkpoint(10, "straight"), self.checkpoint(10, "killed"))
        trained = [line["step"] for line in self.lines_of("killed") if line["kind"] == "train"]
        self.assertEqual(trained, list(range(1, 11)), "metrics of the killed run were repeated or lost")

    # Promise storage/checkpoint-damaged: training continues from the newest intact checkpoint
    def test_a_damaged_checkpoint_falls_back_to_the_newest_intact_one(self):
        common = dict(checkpoint__every_steps=5, checkpoint__keep_last=9, trainer__log_every=1)
        for ranks in (1, 2):
            run = f"damaged{ranks}"
            self.train(ranks=ranks, trainer__steps=15, run__directory=self.folder / run, **common)
            straight = self.checkpoint(15, run)["model.safetensors"]
            folder = self.folder / run / "checkpoints"
            flip_byte(folder / "step-00000015/model.safetensors")
            (folder / "step-00000010/state.json").unlink()
            # The next attempt of a job, in a folder of its own, and the same command again.
            for again in (f"next{ranks}", run):
                resume = dict(checkpoint__resume=folder / "step-00000015") if again != run else {}
                done = self.train(
                    ranks=ranks, trainer__steps=15, run__directory=self.folder / again, **common, **resume
                )
                self.assertIn("continues at step 5 from", done.stderr)
                self.assertRegex(done.stderr, r"step-00000015/model.safetensors: CRC-32")
                self.assertRegex(done.stderr, r"step-00000010/state.json: no such file")
                self.assertEqual(self.checkpoint(15, again)["model.safetensors"], straight)
        # Where none is intact, it is an error that says why.
        for step in (5, 10, 15):
            flip_byte(folder / f"step-{step:08}/model.safetensors")
        self.expect_message(self.train(code=3, trainer__steps=15, run__directory=self.folder / run, **common).stderr)

    # Promise storage/checkpoint-damaged-best: if the best checkpoint is damaged at the end of a training, a warning
    # names it and the last one is used
    def test_a_damaged_best_checkpoint_leaves_the_last_one_as_the_best(self):
        common = dict(
            checkpoint__every_steps=5,
            checkpoint__keep_last=2,
            trainer__steps=30,
            trainer__eval_every=5,
            checkpoint__keep_best="true",
            optimizer__learning_rate=0.5,
        )
        best = lambda: json.loads((self.folder / "run/checkpoints/best.json").read_text())["step"]
        for seed in range(8):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            self.train(trainer__seed=seed, **common)
            if (lost := best()) != 30:
                break
        self.assertNotEqual(lost, 30, "the best model is the last one with every seed")
        flip_byte(self.folder / f"run/checkpoints/step-{lost:08}/model.safetensors")
        for ranks in (1, 2):
            done = self.train(ranks=ranks, trainer__seed=seed, **common)
            self.assertRegex(
                done.stderr,
                rf"step-{lost:08}/model.safetensors: CRC-32.*the best model, of step {lost} \(.*\), is lost: "
                "the final evaluation is of the last one, of step 30",
            )
            # What is given out is what was evaluated.
            self.assertEqual(best(), 30)
            final = self.lines_of("run")[-1]
            self.assertEqual((final["kind"], final["best_step"]), ("final", 30))
            self.run_foretime("evaluate", "run")
            self.run_foretime("export", "run", f"out{ranks}.foretime")

    def test_where_the_best_checkpoint_is_damaged_the_newest_is_measured_and_none_exported(self):
        self.train(trainer__steps=10, checkpoint__every_steps=5, checkpoint__keep_last=9)
        folder = self.folder / "run/checkpoints"
        self.write("run/checkpoints/best.json", {"step": 5, "metric": "holdout/kendall_tau", "value": 1})
        commands = (("evaluate", "run", "--json"), ("rank", "run", SAMPLES / "C10.npz", "--top", 3))
        newest = [self.run_foretime(name, folder / "step-00000010", *rest).stdout for name, _, *rest in commands]
        for damaged, said in (
            (folder / "step-00000005/model.safetensors", "CRC-32"),
            (folder / "best.json", "parse error"),
        ):
            flip_byte(damaged, 0, 255)
            for command, expected in zip(commands, newest):
                with self.subTest(command=command[0], damaged=damaged.name):
                    done = self.run_foretime(*command)
                    self.assertEqual(done.stdout, expected)
                    self.assertRegex(
                        done.stderr,
                        rf"warning: {damaged.relative_to(self.folder)}: .*{said}.*; the newest intact "
                        "checkpoint is used in its place: run/checkpoints/step-00000010",
                    )
            for out in ("out.foretime", "out.pt", "out"):
                text = self.run_foretime("export", "run", out, code=3).stderr
                self.expect_message(text)
                self.assertFalse((self.folder / out).exists())
        self.assertEqual(json.loads(newest[0])["step"], 10)
        self.run_foretime("export", folder / "step-00000010", "out.foretime")
        # A checkpoint that is named itself is not replaced.
        self.assertIn("CRC-32", self.run_foretime("evaluate", folder / "step-00000005", code=3).stderr)

    def test_where_the_best_checkpoint_is_missing_the_newest_is_measured_and_none_exported(self):
        self.train(trainer__steps=10, checkpoint__every_steps=5, checkpoint__keep_last=9)
        folder = self.folder / "run/checkpoints"
        self.write("run/checkpoints/best.json", {"step": 5, "metric": "holdout/kendall_tau", "value": 1})
        shutil.rmtree(folder / "step-00000005")
        missing = "run/checkpoints/step-00000005: this checkpoint is missing; the newest intact checkpoint is "
        for command in (("evaluate", "run"), ("rank", "run", SAMPLES / "C10.npz", "--top", 3)):
            self.assertIn(
                f"warning: {missing}used in its place: run/checkpoints/step-00000010",
                self.run_foretime(*command).stderr,
            )
        for out in ("out.foretime", "out.pt", "out"):
            self.expect_message(
                self.run_foretime("export", "run", out, code=3).stderr, f"{missing}run/checkpoints/step-00000010"
            )
            self.assertFalse((self.folder / out).exists())

    def test_a_run_that_keeps_no_best_checkpoint_goes_on_without_one(self):
        common = dict(checkpoint__keep_best="false", checkpoint__keep_last=1, trainer__eval_every=2)
        self.train(trainer__steps=4, **common)
        self.train(trainer__steps=8, **common)
        self.assertFalse((self.folder / "run/checkpoints/best.json").exists())
        self.assertNotIn("warning", self.run_foretime("evaluate", "run").stderr)
        self.run_foretime("export", "run", "out.foretime")
        # The metrics at the end are those of the last model, so they are not stored as those of the best step.
        ends = [line for line in self.lines_of() if line["kind"] == "final"]
        self.assertEqual([(line["step"], line["best_step"]) for line in ends], [(4, 4), (8, 8)])

    def test_sigterm_on_one_rank_stops_all_with_75(self):
        common = dict(trainer__steps=100000, trainer__log_every=1)
        process = self.start_training(2, **common)
        self.wait_for_step(process, 3)
        os.kill(self.ranks_of(process)[-1], signal.SIGTERM)
        output = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, output)
        last = max((self.folder / "run" / "checkpoints").glob("step-*"))
        self.assertTrue((last / "manifest.json").exists())
        # The next run goes on there.
        step = int(last.name.removeprefix("step-"))
        done = self.train(ranks=2, trainer__steps=step + 1)
        self.assertIn(f"continues at step {step}", done.stderr)

    def test_a_killed_rank_ends_the_run(self):
        process = self.start_training(2, trainer__steps=100000, trainer__log_every=1)
        self.wait_for_step(process, 3)
        os.kill(self.ranks_of(process)[-1], signal.SIGKILL)
        process.communicate(timeout=LIMIT)
        self.assertNotEqual(process.returncode, 0)

    def test_a_stopped_rank_is_named(self):
        process = self.start_training(2, trainer__steps=100000, trainer__log_every=1, comm__timeout_seconds=30)
        self.wait_for_step(process, 3)
        ranks = self.ranks_of(process)
        os.kill(ranks[-1], signal.SIGSTOP)
        try:
            _, errors = process.communicate(timeout=LIMIT)
        finally:
            for pid in ranks:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.assertEqual(process.returncode, 5, errors)
        self.assertRegex(errors, r"late: rank [01]")
